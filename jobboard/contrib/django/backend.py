"""The backend of ``django.tasks``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured, SuspiciousOperation
from django.db import transaction
from django.utils import timezone

from jobboard.conductor import Broken
from jobboard.conductor.calling import signature_of
from jobboard.contrib.django.checks import check_backend
from jobboard.contrib.django.compat import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_enqueued,
)
from jobboard.contrib.django.discovery import is_importable, is_searched, task_named
from jobboard.contrib.django.json_data import as_json
from jobboard.contrib.django.names import is_old, job_name, path_of
from jobboard.contrib.django.results import result_of
from jobboard.contrib.django.site import Site
from jobboard.contrib.django.task import JobBoardTask, TaskCall, job_priority, options_of, options_of_call
from jobboard.contrib.django.task_settings import TaskSettings
from jobboard.errors import NotFound
from jobboard.job import Job, Posting
from jobboard.validation import check_uuid, new_uuid


class JobBoardBackend(BaseTaskBackend):
    """Posts tasks on a board, where conductors run them: ``manage.py jobboard conductor``.

    ``OPTIONS``: ``database``, the alias of the database that the board is in (``"default"``), or ``uri``, another
    place; ``name``, the board's (``"jobs"``); ``max_attempts`` (5), ``backoff`` and ``timeout``, as of
    :meth:`jobboard.Handlers.handler`, and ``TASKS``, which has the same for single tasks by their paths; ``modules``,
    those of installed apps that have tasks beside the modules ``tasks``; and the options of :func:`jobboard.fetch`,
    such as ``retention``.

    A task that is enqueued in a transaction of Django's on ``database`` is posted if and only if that commits: in the
    transaction itself if the board is in the same database, else right after the commit.
    """

    task_class = JobBoardTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        options = dict(self.options)
        self.tasks = TaskSettings(options)
        self.site = Site(options)

    @classmethod
    def checked(cls, backend: Any) -> JobBoardBackend:
        """Return a backend that is one of this class.

        :raises ImproperlyConfigured: it is of another.
        """
        if not isinstance(backend, cls):
            raise ImproperlyConfigured(
                f"the task backend {backend.alias!r} is no {cls.__name__}; set in the settings: "
                f"TASKS = {{{backend.alias!r}: {{'BACKEND': 'jobboard.contrib.django.{cls.__name__}'}}}}"
            )
        return backend

    def job_name(self, task: Task) -> str:
        """Return the name of the jobs of a task: its path, and the queue if that is not its own.

        :raises InvalidTask: no conductor would find the task.
        """
        path = task.module_path
        if not is_searched(task.func.__module__, self.tasks.modules):
            where = "is not the module tasks of an installed app, nor below one, nor in OPTIONS['modules']"
            raise InvalidTask(f"no worker finds the task {path}: {task.func.__module__} {where}")
        try:
            return job_name(task_named(path), task.queue_name, self.queues)
        except (Broken, ImportError) as error:
            raise InvalidTask(f"no worker finds the task {path}: {error}") from None

    def validate_task(self, task: Task) -> None:
        super().validate_task(task)
        try:
            options_of(task)
        except (TypeError, ValueError) as error:
            raise InvalidTask(str(error)) from None

    def enqueue(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        """Post a task; see the class for when.

        :raises InvalidTask: the backend can't run it.
        :raises TypeError: an argument is nothing that JSON has, or the task takes no such arguments.
        :raises InvalidPosting: an argument can't be stored, or is a number that JSON does not have, such as NaN; or
            the key or the lane can't be made of them.
        :raises AlreadyPosted: the task's key is taken, and ``if_exists`` is ``"raise"``.
        :raises BoardUnavailable: the store can't be reached.
        """
        self.validate_task(task)
        call = self.call_of(task, args, kwargs)
        posting = Posting(
            self.job_name(task),
            details=call.details,
            priority=job_priority(task.priority),
            run_at=call.run_after,
            **{"uuid": new_uuid(), **options_of_call(task, call)},
        )
        return self._post(posting, task, call)

    def call_of(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskCall:
        """Return a call of a task; errors as :meth:`enqueue`."""
        run_after = task.run_after
        if run_after is not None and timezone.is_naive(run_after):
            run_after = timezone.make_aware(run_after)
        call = TaskCall(
            task.module_path, as_json("details.args", args), as_json("details.kwargs", kwargs), self.alias,
            task.queue_name, task.priority, run_after,
        )  # fmt: skip
        _check_arguments(task, call)
        return call

    def _post(self, posting: Posting, task: Task, call: TaskCall) -> TaskResult:
        board = self.site.board()

        def post(connection: Any = None) -> TaskResult:
            job = board.post_many([posting], connection=connection)[0]
            # With "keep" or "replace" it may be a job that was there.
            result = self._result(job, task if job.uuid == posting.uuid else None)
            task_enqueued.send_robust(type(self), task_result=result)
            return result

        if not self.site.in_transaction():
            return post()
        if self.site.is_in_database:
            return post(self.site.connection())
        transaction.on_commit(post, using=self.site.database)
        return _result_to_come(str(posting.uuid), task, call)

    def _result(self, job: Job, task: Task | None = None) -> TaskResult:
        call = TaskCall.of(job.details)
        history = job.history if job.record.attempts else ()
        return result_of(job, call, task or call.find_task(), history)

    def get_result(self, result_id: str) -> TaskResult:
        """Return what became of a task; also of one that ended, for the board's ``retention``.

        :raises TaskResultDoesNotExist: there is no such task (any more).
        :raises SuspiciousOperation: what the job names is no task.
        :raises ImportError: there is no such task in this program.
        """
        try:
            job = self.site.board().get(check_uuid(result_id))
        except (NotFound, ValueError, TypeError) as error:
            raise TaskResultDoesNotExist(result_id) from error
        if not (is_old(job.name) or is_importable(path_of(job.name).rpartition(".")[0])):
            # Another job of the board.
            raise TaskResultDoesNotExist(result_id)
        try:
            return self._result(job)
        except Broken as error:
            raise SuspiciousOperation(f"task {result_id}: {error}") from error

    def check(self, **_: Any) -> Iterator[CheckMessage]:
        yield from check_backend(self)


def _check_arguments(task: Task, call: TaskCall) -> None:
    context = (None,) if task.takes_context else ()
    # A decorator's wrapper may give what it wraps anything.
    signature = signature_of(task.func, follow_wrapped=False)
    try:
        signature.bind(*context, *call.args, **call.kwargs)
    except TypeError as error:
        raise TypeError(f"{task.module_path} can't be called with these args: {error}") from None


def _result_to_come(uuid: str, task: Task, call: TaskCall) -> TaskResult:
    """Return the result of a task that is posted after the commit."""
    return TaskResult(
        task=task,
        id=uuid,
        status=TaskResultStatus.READY,
        enqueued_at=None,
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=call.args,
        kwargs=call.kwargs,
        backend=call.backend,
        errors=[],
        worker_ids=[],
    )
