"""How long a job runs, or ran, and how far it is."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from jobboard.operate.claimed_since import claimed_since
from jobboard.states import JobState

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.job import Job

#: How many beginnings are kept.
_MAX_KEPT = 5000


class Runs:
    """When runs began, which lists do not tell: one request for each claim, kept, as it does not change."""

    def __init__(self, board: JobBoard) -> None:
        self._board = board
        self._began: dict[tuple[str, int], datetime | None] = {}

    def seconds(self, jobs: Iterable[Job]) -> dict[str, float]:
        """Return for how long claimed jobs run, and how long the last runs of complete ones took, by uuid."""
        found = {}
        for job in jobs:
            record = job.record
            if record.state in (JobState.CLAIMED, JobState.COMPLETE) and (began := self._begin_of(job)) is not None:
                until = datetime.now(UTC) if record.state is JobState.CLAIMED else record.last_modified
                found[job.uuid] = max(0.0, (until - began).total_seconds())
        return found

    def _begin_of(self, job: Job) -> datetime | None:
        claim = job.uuid, job.record.token
        if claim not in self._began:
            if len(self._began) >= _MAX_KEPT:
                self._began.clear()
            self._began[claim] = claimed_since(self._board, [job.uuid]).get(job.uuid)
        return self._began[claim]


def progress_of(job: Job) -> tuple[float, float | None] | None:
    """Return how much is done, and of how much; None of a job that does not run, or has not told it."""
    report = job.record.progress
    if job.record.state is not JobState.CLAIMED or not isinstance(report, dict):
        return None
    done, total = report.get("done"), report.get("total")
    if not isinstance(done, (int, float)):
        return None
    return done, total if isinstance(total, (int, float)) and total > 0 else None
