"""What became of one run of a handler; plain data, which also comes from worker processes."""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import datetime
from types import CoroutineType
from typing import Any

from jobboard.codec import decode, encode
from jobboard.errors import InvalidPosting
from jobboard.validation import check_delay, check_moment


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

    result: Any = field(default=None, repr=False)


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
    """Call a handler to its end, whatever it does; an ``async`` one on a loop of its own."""
    pid = os.getpid()
    outcome = _outcome_of_call(function)
    end_forked_child(pid, outcome)
    return outcome


def _outcome_of_call(function: Callable[[], Any]) -> Outcome:
    try:
        result = function()
        if issubclass(type(result), CoroutineType):
            return asyncio.run(outcome_of_coroutine(result))
        return outcome_of_result(result)
    except BaseException as error:
        return outcome_of_error(error)


def end_forked_child(pid: int, outcome: Outcome) -> None:
    """End this process unless it has this pid: a child that a handler forked must not go on in its executor."""
    if os.getpid() != pid:
        os._exit(0 if isinstance(outcome, Done) else 1)


async def outcome_of_coroutine(coroutine: Coroutine[Any, Any, Any]) -> Outcome:
    """Await a handler to its end. It raises nothing, since asyncio loses a task with an error that it can't handle."""
    try:
        return outcome_of_result(await coroutine)
    except BaseException as error:
        return outcome_of_error(error)


def outcome_of_result(result: Any) -> Outcome:
    if result is None:
        return Done()
    try:
        if isinstance(result, RunAgain):
            return _again(result)
        # What leaves here is plain data, made by the thread that ran the handler: nothing of the handler's, such as
        # a dict with its own ``items``, runs in a thread that serves other jobs.
        return Done(decode(encode("result", result, largest=_UNLIMITED)))
    except InvalidPosting as error:
        return result_that_cannot_travel(error)
    except BaseException as error:
        return result_that_cannot_travel(f"reading it raised {_name_of(error)}")


def outcome_of_error(error: BaseException) -> Outcome:
    try:
        return _outcome_of_readable(error)
    except BaseException:
        # Its text, its notes, its cause: any of them may raise in turn.
        return Failed(f"{_name_of(error)}, which can't be shown")


def _outcome_of_readable(error: BaseException) -> Outcome:
    if isinstance(error, RunAgain):
        return _again(error)
    text = "".join(traceback.format_exception(error))[-_LONGEST_TRACEBACK:]
    if isinstance(error, Broken):
        return Failed(_exact(str(error)) or "its handler found it broken", text, final=True)
    return Failed(_in_one_line(error), text)


def _again(asked: RunAgain) -> Again:
    # Checked once more, since a handler may have changed it.
    checked = RunAgain(asked.at, asked.after)
    return Again(checked.at, checked.after)


def result_that_cannot_travel(error: Exception | str) -> Failed:
    """The work is done: it must be seen that its result is lost, and must not be done again for the same result."""
    return Failed(f"its result can't be kept: {error}", final=True)


_UNLIMITED = 2**62
#: The end of a traceback says most; more than this would only fill the store.
_LONGEST_TRACEBACK = 16_384


def _in_one_line(error: BaseException) -> str:
    first = (_exact(str(error)).splitlines() or [""])[0]
    return f"{_name_of(error)}: {first}"[:500] if first else _name_of(error)


def _exact(text: str) -> str:
    """A text's ``str`` may be of a class of its own, with methods of its own."""
    return "".join((text,))


def _name_of(error: BaseException) -> str:
    # Not type(error).__name__, which a metaclass can answer.
    return _exact(type.__dict__["__name__"].__get__(type(error)))
