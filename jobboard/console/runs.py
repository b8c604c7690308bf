"""How long a job runs, or ran, and how far it is. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from jobboard.events import EventKind
from jobboard.states import JobState

if TYPE_CHECKING:
    from jobboard.job import Job


def run_seconds(job: Job) -> float | None:
    """Return how long a claimed job runs by now, or the last run of a complete one took; None of others."""
    record = job.record
    if record.state not in (JobState.CLAIMED, JobState.COMPLETE):
        return None
    began = next((line.at for line in reversed(record.history) if line.kind is EventKind.CLAIMED), None)
    if began is None:
        return None
    until = datetime.now(UTC) if record.state is JobState.CLAIMED else record.last_modified
    return max(0.0, (until - began).total_seconds())


def progress_of(job: Job) -> tuple[float, float | None] | None:
    """Return how much is done, and of how much; None of a job that does not run, or has not told it."""
    report = job.record.progress
    if job.record.state is not JobState.CLAIMED or not isinstance(report, dict):
        return None
    done, total = report.get("done"), report.get("total")
    if not isinstance(done, (int, float)):
        return None
    return done, total if isinstance(total, (int, float)) and total > 0 else None
