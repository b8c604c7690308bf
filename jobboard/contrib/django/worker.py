"""The handler that runs tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from jobboard.conductor import Broken, Cancelled, Handlers, RunAgain, RunningJob
from jobboard.conductor.outcome import Suspension, plain_copy
from jobboard.contrib.django.backend import JobBoardBackend
from jobboard.contrib.django.boards import backend_of
from jobboard.contrib.django.compat import (
    Task,
    TaskContext,
    TaskResult,
    TaskResultStatus,
    task_backends,
    task_finished,
    task_started,
)
from jobboard.contrib.django.discovery import checked_task
from jobboard.contrib.django.fresh_connections import with_fresh_connections
from jobboard.contrib.django.json_data import as_json
from jobboard.contrib.django.names import is_old, job_names, old_names, path_of
from jobboard.contrib.django.results import change, checkpoint_with, error_of, moment, result_of
from jobboard.contrib.django.task import TaskCall
from jobboard.errors import JobBoardError
from jobboard.events import EventKind, HistoryEntry
from jobboard.then import Then

logger = logging.getLogger("jobboard.contrib.django")

#: What a task raises to tell the board, and is no failure.
_NO_FAILURES = (RunAgain, Cancelled, Suspension)


def task_handlers(
    alias: str = "default", queues: Iterable[str] | None = None, only: Iterable[str] | None = None
) -> Handlers:
    """Return the handlers for the tasks of a backend; the modules that have tasks are imported.

    :param alias: of the backend in ``TASKS``.
    :param queues: only the jobs of these queues; None for all.
    :param only: only the tasks of these paths; None for all.
    :raises ImproperlyConfigured: it is no :class:`~jobboard.contrib.django.JobBoardBackend`; there is no such queue or
        task; or a module of tasks can't be imported.
    """
    backend = backend_of(alias)
    wanted = backend.queues if queues is None else _checked_queues(backend, queues)
    tasks = backend.tasks.tasks()
    handlers = Handlers()
    for path in tasks if only is None else dict.fromkeys(only):
        for name in job_names(checked_task(path, tasks), wanted, backend.queues):
            handlers.add(name, run_task, **backend.tasks.of(path))
    if only is None:
        for name in old_names(wanted, backend.queues):
            handlers.add(name, run_task, **backend.tasks.of_all)
    return with_fresh_connections(handlers)


def _checked_queues(backend: JobBoardBackend, queues: Iterable[str]) -> set[str]:
    wanted = set(queues)
    if unknown := sorted(wanted - backend.queues):
        there = f"it has {', '.join(sorted(backend.queues))}" if backend.queues else "it has none, so take all"
        raise ImproperlyConfigured(f"QUEUES of the task backend {backend.alias!r} has no {unknown[0]!r}; {there}")
    return wanted


def run_task(job: RunningJob) -> Any:
    """Run the task that a job names; nothing but a task of an installed app is called."""
    try:
        return _run(job)
    except _NO_FAILURES:
        raise
    except BaseException as error:
        _note(job, error)
        raise


def _run(job: RunningJob) -> Any:
    call = TaskCall.of(job.details)
    if not is_old(job.name) and path_of(job.name) != call.task:
        raise Broken(f"its details are a call of another task, {call.task}")
    backend = JobBoardBackend.checked(task_backends[call.backend])
    task = call.find_task()
    result = _running_result(job, call, task)
    task_started.send_robust(sender=type(backend), task_result=result)
    try:
        value = _call(task, result)
    except _NO_FAILURES:
        raise
    except BaseException as error:
        if isinstance(error, Broken) or job.attempts >= (
            job.max_attempts or backend.tasks.of(call.task)["max_attempts"]
        ):
            result.errors.append(error_of(error))
            _finish(result, backend, status=TaskResultStatus.FAILED)
        raise
    returned = value.result if isinstance(value, Then) else value
    _finish(result, backend, status=TaskResultStatus.SUCCESSFUL, _return_value=returned)
    return value


def _running_result(job: RunningJob, call: TaskCall, task: Task) -> TaskResult:
    this = HistoryEntry(EventKind.CLAIMED, job.owner, job.record.last_modified, job.token, None)
    return result_of(job, call, task, [this])


def _call(task: Task, result: TaskResult) -> Any:
    context = [TaskContext(task_result=result)] if task.takes_context else []
    value = task.call(*context, *result.args, **result.kwargs)
    if isinstance(value, RunAgain):
        raise value
    try:
        if isinstance(value, Then):
            return Then(value.postings, _copy_of(value.result))
        return _copy_of(value)
    except (TypeError, ValueError) as error:
        # The work is done, and a further run would end in the same way.
        raise Broken(f"its result can't be kept: {error}") from error


def _copy_of(value: Any) -> Any:
    return plain_copy("result", as_json("result", value))


def _finish(result: TaskResult, backend: JobBoardBackend, **values: Any) -> None:
    """Tell that a task has ended; while its error is handled, so that receivers can log that."""
    change(result, finished_at=moment(datetime.now(UTC)), **values)
    task_finished.send_robust(sender=type(backend), task_result=result)


def _note(job: RunningJob, error: BaseException) -> None:
    """Keep an error where the task's result finds it; the board itself keeps the last one only."""
    try:
        job.checkpoint_state(checkpoint_with(job.checkpoint, error, job.token))
    except JobBoardError as fault:
        logger.warning("the error of task %s is not kept: %s", job.uuid, fault)
