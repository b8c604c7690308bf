"""How the jobs of a task are posted unless a call says otherwise: its lane, key and priority, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

from jobboard.backends.rows import IfExists
from jobboard.conductor.calling import is_async
from jobboard.conductor.following import FollowUp, check_declared, posting_of
from jobboard.errors import InvalidPosting
from jobboard.interrupts import is_of_signal_handler
from jobboard.limit import check_lane
from jobboard.states import JobPriority
from jobboard.types import IfExistsName, Priority, Seconds
from jobboard.validation import check_delay, check_text

T = TypeVar("T")
#: A constant, or a function that makes it of a task's details.
Declared: TypeAlias = T | Callable[[Any], T]

#: What can be made of details, and what checks it.
_CHECKS: dict[str, Callable[[Any], object]] = {
    "lane": check_lane,
    "key": partial(check_text, "key"),
    "key_for": partial(check_delay, what="key_for"),
    "if_exists": IfExists.convert,
    "priority": JobPriority.convert,
}
_FOLLOW_UPS = ("on_trashed", "on_complete")
#: What the jobs of a schedule have of these; it makes their keys itself.
_OF_SCHEDULES = ("lane", "priority")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredPosting:
    """What the declaration of a task says of the postings of its jobs; None says nothing.

    :raises TypeError: one is of another type, or an ``async`` function.
    :raises ValueError: a constant is out of its range.
    """

    lane: Declared[str | None] = None
    key: Declared[str | None] = None
    key_for: Declared[Seconds | None] = None
    if_exists: Declared[IfExistsName | None] = None
    priority: Declared[Priority | None] = None
    on_trashed: FollowUp | None = None
    on_complete: FollowUp | None = None

    def __post_init__(self) -> None:
        for option, check in _CHECKS.items():
            value = getattr(self, option)
            if callable(value) and is_async(value):
                raise TypeError(f"{option} must be given by a plain function, not by an async one")
            if value is not None and not callable(value):
                check(value)
        for option in _FOLLOW_UPS:
            check_declared(option, getattr(self, option))

    def of_posting(self, task: str, details: Any, plain: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a posting: those that are given, None too, and the declared ones beside them.

        :param task: its name, for errors.
        :param plain: the details as the job has them.
        :raises InvalidPosting: a function raised an exception, or returned what can't be.
        """
        made = self._made(_CHECKS, task, details, given)
        if given.get("key", made.get("key")) is None:
            # This one has no key that could stay taken.
            made.pop("key_for", None)
        follow_ups = {what: getattr(self, what) for what in _FOLLOW_UPS if what not in given}
        made |= {what: posting_of(each, plain) for what, each in follow_ups.items() if each is not None}
        return {**made, **given}

    def of_schedule(self, task: str, details: Any, given: Collection[str]) -> dict[str, Any]:
        """Return the declared arguments of a schedule that are not among the given ones; errors likewise."""
        return self._made(_OF_SCHEDULES, task, details, given)

    def _made(self, options: Collection[str], task: str, details: Any, given: Collection[str]) -> dict[str, Any]:
        # Of a task without a type, a function gets a dict in any case.
        argument = {} if details is None else details
        made = {each: made_of(task, each, getattr(self, each), argument) for each in options if each not in given}
        return {option: value for option, value in made.items() if value is not None}


def made_of(task: str, option: str, declared: Any, *arguments: Any, **named: Any) -> Any:
    """Return what a task declares as an option of its postings, called with these arguments if it is a function.

    :raises InvalidPosting: that raised an exception, or returned what can't be; names the task and the option.
    """
    if not callable(declared):
        return declared
    try:
        value = declared(*arguments, **named)
    except Exception as error:
        if is_of_signal_handler(error):
            raise
        # Not its text, which may repeat a value.
        fault = f"its function raised {type(error).__name__}"
        raise InvalidPosting(f"the task {task!r} declares {option}, but {fault}", path=option) from error
    try:
        if value is not None:
            _CHECKS[option](value)
    except (TypeError, ValueError) as error:
        fault = f"what its function returned is refused: {error}"
        raise InvalidPosting(f"the task {task!r} declares {option}, but {fault}", path=option) from None
    return value
