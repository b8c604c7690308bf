"""What postings and schedules ask of a task; the tasks themselves are made by handlers, far above."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

Details = TypeVar("Details", contravariant=True)


class TaskProtocol(Protocol[Details]):
    """A :class:`~jobboard.Task`, as those see it who only post it."""

    @property
    def name(self) -> str: ...
    def encode(self, details: Details, /) -> dict[str, Any]: ...


def check_task(value: object, wanted: str) -> TaskProtocol[Any]:
    """Return ``value`` if it is a task; raise ``TypeError`` with what is ``wanted`` if not.

    A framework's task, whose ``name`` may be something else, says by ``__jobboard_task__()`` which one it stands for.
    """
    stands_for = getattr(value, "__jobboard_task__", None)
    task = stands_for() if callable(stands_for) else value
    if not isinstance(getattr(task, "name", None), str) or not callable(getattr(task, "encode", None)):
        raise TypeError(f"{wanted}, not {type(value).__name__}")
    return task  # type: ignore[return-value]
