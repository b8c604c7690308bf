"""How long a job runs, or ran, and how far it is, or was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from jobboard.console.templating import percent_of
from jobboard.job import row_of
from jobboard.operate.claimed_since import claimed_since
from jobboard.states import JobState

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.job import Job

#: How many beginnings are kept.
_MAX_KEPT = 5000
#: Bytes of a report of progress that are decoded for its numbers.
_MAX_REPORT = 4096


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


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run told last that it is: how much is done, of how much, and a text, which users may have written.

    :ivar rest: whether the report has more than these.
    """

    done: float
    total: float | None
    text: str | None
    rest: bool

    @property
    def said(self) -> str:
        """Return ``3`` or ``3 of 10, 30 %``."""
        if self.total is None:
            return f"{self.done:,.6g}"
        return f"{self.done:,.6g} of {self.total:,.6g}, {percent_of(self.done / self.total)}"


def progress_of(job: Job) -> Progress | None:
    """Return what the present run, or the last one, has told; None if it told nothing of this form, or too much.

    Users without the right ``details`` see the numbers.
    """
    if len(row_of(job).progress or b"") > _MAX_REPORT:
        return None
    report = job.record.progress
    if not isinstance(report, dict) or not isinstance(done := report.get("done"), (int, float)):
        return None
    total, text = report.get("total"), report.get("text")
    total = total if isinstance(total, (int, float)) and total > 0 else None
    return Progress(done, total, None if text is None else str(text), not report.keys() <= {"done", "total", "text"})


def running_progress(job: Job) -> Progress | None:
    """Return the same of a job that runs; None of any other."""
    return progress_of(job) if job.record.state is JobState.CLAIMED else None
