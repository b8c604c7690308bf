"""What Django sees of a job: its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from jobboard.conductor import Broken, RunningJob
from jobboard.contrib.django.compat import Task, TaskError, TaskResult, TaskResultStatus
from jobboard.contrib.django.task import TaskCall
from jobboard.events import EventKind, HistoryEntry
from jobboard.job import Job
from jobboard.record import Record
from jobboard.states import LIVE, JobState
from jobboard.text import traceback_of

_STATUS = {
    JobState.DELAYED: TaskResultStatus.READY,
    JobState.BLOCKED: TaskResultStatus.READY,
    JobState.UNCLAIMED: TaskResultStatus.READY,
    JobState.CLAIMED: TaskResultStatus.RUNNING,
    JobState.COMPLETE: TaskResultStatus.SUCCESSFUL,
    JobState.TRASHED: TaskResultStatus.FAILED,
}
#: How many errors of one task are kept.
_MAX_ERRORS = 10
#: A worker that is left out of the board's history, which ends after 20 entries.
_FORGOTTEN = "(forgotten)"


def result_of(job: Job | RunningJob, call: TaskCall, task: Task, history: Sequence[HistoryEntry]) -> TaskResult:
    """Return the result that a job and its history show."""
    record: Record = job.record
    claims = [entry for entry in history if entry.kind is EventKind.CLAIMED]
    result = TaskResult(
        task=task,
        id=job.uuid,
        status=_STATUS[record.state],
        enqueued_at=moment(job.created_on),
        started_at=moment(claims[0].at) if claims else None,
        finished_at=None if record.state in LIVE else moment(record.last_modified),
        last_attempted_at=moment(claims[-1].at) if claims else None,
        args=call.args,
        kwargs=call.kwargs,
        backend=call.backend,
        errors=_errors_of(record, claims),
        worker_ids=[_FORGOTTEN] * (record.attempts - len(claims)) + [entry.who or "" for entry in claims],
    )
    if record.state is JobState.COMPLETE:
        change(result, _return_value=record.result)
    return result


def change(result: TaskResult, **values: Any) -> None:
    """Change a result, which is frozen for everybody but backends."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def moment(at: datetime) -> datetime:
    """Return a moment as ``USE_TZ`` wants it."""
    return at if settings.USE_TZ else timezone.make_naive(at)


def error_of(error: BaseException) -> TaskError:
    """Return an exception as Django shows it; of what :class:`~jobboard.Broken` was raised from, that."""
    shown = error.__cause__ if isinstance(error, Broken) and error.__cause__ else error
    kind = type(shown)
    trace = traceback_of(shown, shown.__traceback__)
    return TaskError(exception_class_path=f"{kind.__module__}.{kind.__qualname__}", traceback=trace)


def checkpoint_with(earlier: Any, error: BaseException, token: int | None) -> dict[str, Any]:
    """Return a checkpoint that has one more error than the earlier one.

    :param token: of the claim under which it was raised.
    """
    return {"errors": [*_noted(earlier), {**asdict(error_of(error)), "token": token}][-_MAX_ERRORS:]}


def _noted(checkpoint: Any) -> list[dict[str, Any]]:
    return list(checkpoint["errors"]) if isinstance(checkpoint, dict) and "errors" in checkpoint else []


def _errors_of(record: Record, claims: Sequence[HistoryEntry]) -> list[TaskError]:
    noted = _noted(record.checkpoint)
    errors = [TaskError(exception_class_path=e["exception_class_path"], traceback=e["traceback"]) for e in noted]
    is_noted = bool(noted) and (not claims or noted[-1]["token"] == claims[-1].token)
    if record.state is JobState.TRASHED and not is_noted:
        # No run could note it: its worker died, or somebody put the job aside.
        why = record.reason or record.last_error or "it was put aside"
        errors.append(TaskError(exception_class_path="jobboard.errors.JobBoardError", traceback=why))
    return errors
