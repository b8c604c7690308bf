"""What became of one run of a handler; plain data, which also comes from worker processes."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobboard.arguments import check_delay, check_moment


class RunAgain(Exception):
    """Return or raise it from a handler: back on the board for then, and not counted as a failure.

    :param at: an aware datetime; or ``after``: seconds from now by the store's clock; neither is at once.
    """

    def __init__(self, at: datetime | None = None, after: float | None = None) -> None:
        if at is not None and after is not None:
            raise ValueError("give at or after, not both")
        if at is not None:
            check_moment("at", at)
        self.at = at
        self.after = None if after is None else check_delay(after, "after")
        super().__init__(at, after)


class Cancelled(Exception):
    """Raise it from a handler that saw ``job.cancelled`` and stopped; the job goes off the board.

    Raised by a handler whose job nobody cancelled, it is a failure like any other.
    """


class Broken(Exception):
    """Raise it from a handler when no further attempt can help: the job goes to the trash, with this reason."""


@dataclass(frozen=True, slots=True)
class Done:
    """The handler returned."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised, took too long, or its process died; ``final`` if no further attempt can help."""

    reason: str
    error: str | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """The handler wants to run again."""

    at: datetime | None = None
    after: float | None = None


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The handler was stopped and the job is to go back with its attempt, or off the board if it was cancelled."""

    reason: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """The claim is lost; there is nothing to tell the board."""


Outcome = Done | Failed | Again | GivenUp | Dropped


def outcome_of_call(function: Callable[[], Any]) -> Outcome:
    """Call a handler to its end, whatever it does."""
    try:
        return outcome_of_result(function())
    except BaseException as error:
        return outcome_of_error(error)


def outcome_of_result(result: Any) -> Outcome:
    return Again(result.at, result.after) if isinstance(result, RunAgain) else Done(result)


def outcome_of_error(error: BaseException) -> Outcome:
    if isinstance(error, RunAgain):
        return Again(error.at, error.after)
    text = "".join(traceback.format_exception(error))[-_LONGEST_TRACEBACK:]
    if isinstance(error, Broken):
        return Failed(str(error) or "its handler found it broken", text, final=True)
    return Failed(_in_one_line(error), text)


def result_that_cannot_travel(error: Exception) -> Failed:
    """The work is done: it must be seen that its result is lost, and must not be done again for the same result."""
    return Failed(f"its result can't be kept: {error}", final=True)


#: The end of a traceback says most; more than this would only fill the store.
_LONGEST_TRACEBACK = 16_384


def _in_one_line(error: BaseException) -> str:
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"[:500] if first else type(error).__name__
