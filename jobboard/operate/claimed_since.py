"""Since when claimed jobs are claimed: their records say when they were renewed last, and their histories the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from jobboard.board import client_of
from jobboard.events import EventKind, HistoryEntry

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.job import Job


def last_claim_in(history: Sequence[HistoryEntry]) -> datetime | None:
    """Return when the last claim of a history began; None if it does not go back so far."""
    return next((line.at for line in reversed(history) if line.kind is EventKind.CLAIMED), None)


def claimed_since(board: JobBoard, uuids: Iterable[str]) -> dict[str, datetime]:
    """Return when the last claim of each of these jobs began, by uuid; one request for each job.

    Those are left out whose history does not go back so far, or that are gone by now.

    :raises BoardUnavailable: the store can't be reached.
    """
    client = client_of(board)
    found = {uuid: last_claim_in(client.call(client.backend.jobs.history, uuid)) for uuid in uuids}
    return {uuid: began for uuid, began in found.items() if began is not None}


def first_claims(claimed: Iterable[Job]) -> dict[str, Job]:
    """Return the job that each owner has claimed first, by the order of tokens; on several shards one of the first."""
    found: dict[str, Job] = {}
    for job in claimed:
        owner = job.record.owner or ""
        if owner not in found or job.record.token < found[owner].record.token:
            found[owner] = job
    return found
