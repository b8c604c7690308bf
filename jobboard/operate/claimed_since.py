"""Since when claimed jobs are claimed: their records say when they were renewed last, and their histories the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from jobboard.board import client_of
from jobboard.events import EventKind

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.job import Job


def claimed_since(board: JobBoard, jobs: Sequence[Job]) -> dict[str, datetime]:
    """Return when the last claim of each of these jobs began, by uuid; one request for each job.

    Those are left out whose history does not go back so far, or that are gone by now.

    :raises BoardUnavailable: the store can't be reached.
    """
    client = client_of(board)
    histories = {job.uuid: client.call(client.backend.jobs.history, job.uuid) for job in jobs}
    claims = {
        uuid: [line.at for line in history if line.kind is EventKind.CLAIMED] for uuid, history in histories.items()
    }
    return {uuid: moments[-1] for uuid, moments in claims.items() if moments}


def first_claims(claimed: Iterable[Job]) -> dict[str, Job]:
    """Return the job that each owner has claimed first, by the order of tokens; on several shards one of the first."""
    found: dict[str, Job] = {}
    for job in claimed:
        owner = job.record.owner or ""
        if owner not in found or job.record.token < found[owner].record.token:
            found[owner] = job
    return found
