"""What postings and schedules ask of a task; the tasks themselves are made by handlers, far above."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any, Protocol, TypeVar

Details = TypeVar("Details", contravariant=True)


class TaskProtocol(Protocol[Details]):
    """A :class:`~jobboard.Task`, as those see it who only post it."""

    @property
    def name(self) -> str: ...
    def encode(self, details: Details, /) -> dict[str, Any]: ...


class FromTask(Enum):
    """The default of an argument that is what a task's declaration says."""

    DEFAULT = "what the task says"


def posting_options(
    task: TaskProtocol[Any], details: Any, plain: dict[str, Any], given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the arguments of a posting of a task: those that are given, and what the task declares beside them."""
    declared = getattr(task, "posting_options", None)
    made: Mapping[str, Any] = given if declared is None else declared(details, plain, given)
    return made


def schedule_options(task: TaskProtocol[Any], details: Any, given: Collection[str]) -> dict[str, Any]:
    """Return what a task declares of its schedules that is not among the given arguments."""
    declared = getattr(task, "schedule_options", None)
    made: dict[str, Any] = {} if declared is None else declared(details, given)
    return made


def check_task(value: object, wanted: str) -> TaskProtocol[Any]:
    """Return ``value`` if it is a task; raise ``TypeError`` with what is ``wanted`` if not.

    A framework's task, whose ``name`` may be something else, says by ``__jobboard_task__()`` which one it stands for.
    """
    task = _task_of(value)
    if task is None:
        raise TypeError(f"{wanted}, not {type(value).__name__}")
    return task


def is_task(value: object) -> bool:
    """Whether :func:`check_task` takes it."""
    return _task_of(value) is not None


def _task_of(value: object) -> TaskProtocol[Any] | None:
    stands_for = getattr(value, "__jobboard_task__", None)
    task: Any = stands_for() if callable(stands_for) else value
    is_one = isinstance(getattr(task, "name", None), str) and callable(getattr(task, "encode", None))
    return task if is_one else None
