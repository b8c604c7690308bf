"""A task with the options of a posting, and how one travels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Self

from jobboard.backends.rows import IfExists
from jobboard.conductor import Broken
from jobboard.conductor.declared_posting import made_of
from jobboard.contrib.django.compat import Task
from jobboard.contrib.django.discovery import task_named
from jobboard.limit import check_lane
from jobboard.states import JobPriority
from jobboard.task_protocol import TaskProtocol
from jobboard.validation import check_count, check_text, check_uuid

#: The options that a plain task of Django's does not have, with what checks them.
_CHECKS: dict[str, Callable[[object], Any]] = {
    "key": partial(check_text, "key"),
    "if_exists": IfExists.convert,
    "max_attempts": partial(check_count, "max_attempts"),
    "lane": check_lane,
    "uuid": check_uuid,
}
#: Those of them that a task may declare as a function of its arguments.
_MADE = ("key", "lane")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBoardTask(Task):
    """A task that can also say how it is posted; what ``@task`` makes where the backend is a board.

    :param key: unique among the live jobs of this task, in each of its queues; or a function that makes it of the
        arguments of a call, as :meth:`jobboard.Handlers.handler` takes one of details.
    :param if_exists: if that key is taken: ``"raise"``, ``"keep"`` the live task and return its result, or
        ``"replace"`` what it does and when, as long as it does not run.
    :param max_attempts: after that many runs that did not end well it has failed; None for the backend's number.
    :param lane: what it shares limits with, such as ``"tenant:42"``, or a function likewise; see
        :doc:`/guides/limits`.
    :param uuid: the id of the result; enqueueing the same one twice makes one task. A new one by default.
    """

    # They say how a task is posted, and make no other task of it.
    key: str | Callable[..., str | None] | None = field(default=None, compare=False)
    if_exists: str = field(default="raise", compare=False)
    max_attempts: int | None = field(default=None, compare=False)
    lane: str | Callable[..., str | None] | None = field(default=None, compare=False)
    uuid: str | None = field(default=None, compare=False)

    def using(self, **changes: Any) -> Self:
        """Return a copy with other options: those of Django's tasks, and of this class; None leaves one as it is.

        :raises TypeError: there is no such option.
        """
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def __jobboard_task__(self) -> TaskProtocol[Any]:
        """Return what :class:`jobboard.Schedule` takes it for."""
        # It imports the backend, which imports this module.
        from jobboard.contrib.django.schedules import ScheduledTask

        return ScheduledTask(self)


@dataclass(frozen=True, slots=True)
class TaskCall:
    """One call of a task, as a job's details carry it."""

    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    backend: str
    queue: str
    priority: int
    run_after: datetime | None = None
    #: Whether it is of a schedule that ``manage.py jobboard schedules apply`` put on the board.
    from_settings: bool = False

    @classmethod
    def of(cls, details: dict[str, Any] | None) -> TaskCall:
        """Read the details of a job.

        :raises Broken: they are no call of a task.
        """
        try:
            call = cls(**(details or {}))
        except TypeError as error:
            raise Broken(f"its details are no call of a task: {error}") from None
        kinds = {"task": str, "args": list, "kwargs": dict, "backend": str, "queue": str, "priority": int}
        for name, kind in kinds.items():
            if not isinstance(getattr(call, name), kind):
                raise Broken(f"its details are no call of a task: {name} is no {kind.__name__}")
        return call

    @property
    def details(self) -> dict[str, Any]:
        details = asdict(self)
        if not self.from_settings:
            del details["from_settings"]
        return details

    def find_task(self) -> Task:
        """Return the task that is called, with the options of this call; its module is imported if it is an app's.

        :raises Broken: the name is not that of a task.
        :raises ImportError: there is none of that name here, which may be an older version of the program.
        """
        found = task_named(self.task)
        return replace(
            found, backend=self.backend, queue_name=self.queue, priority=self.priority, run_after=self.run_after
        )


def job_priority(priority: int) -> JobPriority:
    """Return the board's priority for Django's number from -100 to 100.

    Five bands that never swap two numbers: 0, which nearly all tasks have, is NORMAL, and each sign has two.
    """
    if priority == 0:
        return JobPriority.NORMAL
    if priority > 0:
        return JobPriority.VERY_HIGH if priority > 50 else JobPriority.HIGH
    return JobPriority.VERY_LOW if priority < -50 else JobPriority.LOW


def options_of(task: Task) -> dict[str, Any]:
    """Return how a task is posted; a plain one, made while the settings named another backend, does not say.

    What a function makes of a call stays that function: :func:`options_of_call`.

    :raises TypeError: an option is of another type.
    :raises ValueError: an option is out of its range.
    """
    given = {name: getattr(task, name, None) for name in _CHECKS}
    return {
        name: value if name in _MADE and callable(value) else _CHECKS[name](value)
        for name, value in given.items()
        if value is not None
    }


def options_of_call(task: Task, call: TaskCall) -> dict[str, Any]:
    """Return how a call of a task is posted.

    :raises InvalidPosting: a function of the task raised an exception, or returned what can't be.
    """
    made = {
        name: made_of(call.task, name, value, *call.args, **call.kwargs) for name, value in options_of(task).items()
    }
    return {name: value for name, value in made.items() if value is not None}
