"""Schedules of tasks: made of a task and its arguments, and those that the settings have."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured

from jobboard.board import JobBoard, client_of
from jobboard.contrib.django.backend import JobBoardBackend
from jobboard.contrib.django.compat import InvalidTask, Task, task_backends
from jobboard.contrib.django.discovery import checked_task
from jobboard.contrib.django.task import TaskCall, job_priority, options_of, options_of_call
from jobboard.schedules.applying import Applying
from jobboard.schedules.schedule import Schedule

#: The setting: id -> trigger, task, args, and options of a schedule.
SETTING = "JOBBOARD_SCHEDULES"
#: What each job of a schedule has of its own.
_OF_ONE_JOB = ("key", "uuid", "if_exists", "run_after")

#: How a schedule posts what is no task.
_NO_TASK = (
    "if it is the name of a handler that is no task, put its schedule on the board by board().schedules.add(...) or "
    "manage.py jobboard schedule add"
)

#: A task's arguments: by name, or in order.
Arguments = Mapping[str, Any] | Sequence[Any] | None


class ScheduledTask:
    """A task as schedules post it: the name of its jobs, and its arguments as their details.

    :param task: it runs on the board of its backend, as an enqueued one does.
    """

    def __init__(self, task: Task) -> None:
        self._task = task

    @property
    def name(self) -> str:
        """The name of its jobs; raises :class:`InvalidTask` if no conductor has it."""
        return JobBoardBackend.checked(task_backends[self._task.backend]).job_name(self._task)

    def encode(self, details: Arguments, /) -> dict[str, Any]:
        """Return the details of a call with these arguments; errors as :func:`scheduled_call`."""
        return scheduled_call(self._task, details).details

    def posting_options(self, details: Arguments, plain: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a posting: those that are given, and what the task says beside them."""
        options = options_of_call(self._task, scheduled_call(self._task, details))
        return {"priority": job_priority(self._task.priority), **options, **given}

    def schedule_options(self, details: Arguments, given: Collection[str]) -> dict[str, Any]:
        """Return what the task says of the jobs of a schedule, but for the given arguments."""
        options = schedule_options(self._task, scheduled_call(self._task, details))
        return {name: value for name, value in options.items() if name not in given}


def scheduled_call(task: Task, args: Arguments = None) -> TaskCall:
    """Return the call of a task that each job of a schedule is.

    :param args: a mapping by name, or a sequence in order; JSON.
    :raises InvalidTask: the task has an option that is for one job only.
    :raises TypeError: an argument is nothing that JSON has, or the task takes no such arguments.
    :raises InvalidPosting: an argument can't be stored, or is a number that JSON does not have.
    """
    given = {**options_of(task), "run_after": task.run_after}
    # A key that is made of the arguments is declared with the task, and the jobs of a schedule have keys of their own.
    refused = ("uuid", "run_after") if callable(given.get("key")) else _OF_ONE_JOB
    if wrong := [name for name in refused if given.get(name) not in (None, "raise")]:
        raise InvalidTask(f"{wrong[0]} is an option of enqueue(), and not for the jobs of a schedule")
    if args is not None and (isinstance(args, str) or not isinstance(args, Mapping | Sequence)):
        raise TypeError(f"args must be a list, or a dict by name, not {type(args).__name__}")
    in_order, by_name = ((), args) if isinstance(args, Mapping) else (args or (), {})
    return JobBoardBackend.checked(task_backends[task.backend]).call_of(task, in_order, by_name)


def schedules_of_settings(alias: str) -> dict[str, Schedule]:
    """Return the schedules that the settings have for a backend, by their ids.

    :raises ImproperlyConfigured: names the entry, and what is wrong with it.
    """
    backend = JobBoardBackend.checked(task_backends[alias])
    entries = getattr(settings, SETTING, {})
    if not isinstance(entries, Mapping):
        raise ImproperlyConfigured(f"{SETTING} must be a dict, not {type(entries).__name__}")
    found: dict[str, Schedule] = {}
    tasks: Mapping[str, Task] | None = None
    for id, entry in entries.items():
        try:
            given = dict(entry)
            if _alias_of(given) == alias:
                tasks = backend.tasks.tasks() if tasks is None else tasks
                found[id] = _schedule_of(id, given, tasks, alias)
        except (ImproperlyConfigured, InvalidTask, TypeError, ValueError) as error:
            raise ImproperlyConfigured(f"{SETTING}[{id!r}]: {error}") from error
    return found


def _alias_of(entry: dict[str, Any]) -> str:
    """Remove the backend from an entry, and return its alias."""
    alias = entry.pop("backend", "default")
    if alias not in (there := list(task_backends)):
        raise ValueError(f"TASKS has no backend {alias!r}; it has {', '.join(there)}")
    return str(alias)


def _schedule_of(id: str, entry: dict[str, Any], tasks: Mapping[str, Task], alias: str) -> Schedule:
    if missing := [name for name in ("trigger", "task") if name not in entry]:
        raise ValueError(f"it has no {missing[0]!r}")
    trigger, path, args = entry.pop("trigger"), entry.pop("task"), entry.pop("args", None)
    try:
        task = checked_task(path, tasks).using(backend=alias)
    except ImproperlyConfigured as error:
        raise ImproperlyConfigured(f"{error}; {_NO_TASK}") from None
    call = replace(scheduled_call(task, args), from_settings=True)
    return Schedule(id, trigger, ScheduledTask(task).name, call.details, **{**schedule_options(task, call), **entry})


def schedule_options(task: Task, call: TaskCall) -> dict[str, Any]:
    """Return the options of a schedule that are those of its task, unless it says otherwise."""
    given = options_of_call(task, call)
    return {"priority": job_priority(task.priority), **{name: given.get(name) for name in ("max_attempts", "lane")}}


def applying_settings(board: JobBoard, alias: str) -> Applying:
    """Return what applies the schedules that the settings have for a backend, whose details say where they are from."""
    return Applying(client_of(board), None, partial(_is_of_settings, alias))


def _is_of_settings(alias: str, schedule: Schedule) -> bool:
    details = schedule.details or {}
    return details.get("from_settings") is True and details.get("backend") == alias


def check_schedules(**_: Any) -> Iterator[CheckMessage]:
    """Check the schedules of the settings, as ``manage.py check`` does; no board is asked."""
    for alias in task_backends:
        if isinstance(task_backends[alias], JobBoardBackend):
            try:
                schedules_of_settings(alias)
            except ImproperlyConfigured as error:
                yield Error(str(error), id="jobboard.E003")
