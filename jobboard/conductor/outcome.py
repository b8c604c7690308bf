"""The outcome of one run of a handler, as plain data that worker processes can send."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from types import CoroutineType, TracebackType
from typing import TYPE_CHECKING, Any, TypeGuard

from jobboard.backends.reasons import WAITS_FOR_JOBS, sleeps, waits_for
from jobboard.codec import decode, encode
from jobboard.conductor.awaited_jobs import Several, check_jobs, fixed_jobs, is_jobs
from jobboard.converter import Converter
from jobboard.errors import AlreadyPosted, InvalidPosting
from jobboard.job import JobOrUuid, Posting
from jobboard.text import line_of, name_of, text_of, traceback_of
from jobboard.then import Then, fixed
from jobboard.types import Seconds
from jobboard.validation import check_delay, check_moment

if TYPE_CHECKING:
    from jobboard.conductor.job_facts import JobSnapshot
    from jobboard.conductor.retrying import ErrorRules

#: The converter of the board whose job runs here.
current_converter: ContextVar[Converter | None] = ContextVar("jobboard_converter", default=None)
#: What the handler that runs here lets follow from its errors, and its job; of a batch, the first one.
current_error_rules: ContextVar[tuple[ErrorRules, JobSnapshot] | None] = ContextVar(
    "jobboard_error_rules", default=None
)


class RunAgain(Exception):
    """Return or raise it from a handler to run the job again later; the attempt is not counted.

    At once means at once: a handler that always asks for that runs as fast as the store goes, and a conductor is busy
    with it. To wait for something, give a time, or jobs.

    :param at: the aware datetime from which the job can be claimed again; one that is past is at once.
    :param after: the seconds until then, by the store's clock; with neither, or 0, it is at once. Or several jobs that
        it waits for, as a posting's ``after``: postings, which are posted then, handles, or uuids. Meanwhile it is
        BLOCKED and holds no slot; it runs again once they have ended, as its ``if_failed`` says, at once if all have,
        and ``job.parents()`` has their results.
    :param pause_lane: whether no other job of its lane begins before then either, as ``board.pause(lane=...)`` does it:
        for a service that answers "too many requests, come back in 30 s". Those that run go on. One without a lane
        runs again alone.
    :raises ValueError: both are given, or none or jobs and ``pause_lane``; ``at`` has no time zone, or ``after`` is
        negative.
    :raises TypeError: an argument is of another type.
    """

    def __init__(
        self,
        at: datetime | None = None,
        after: Seconds | Several[Posting | JobOrUuid] | None = None,
        *,
        pause_lane: bool = False,
    ) -> None:
        if at is not None and after is not None:
            raise ValueError("give at or after, not both")
        if not isinstance(pause_lane, bool):
            raise TypeError(f"pause_lane must be a bool, not {type(pause_lane).__name__}")
        #: The jobs that it waits for; None if it gives a time.
        self.jobs = check_jobs(after) if is_jobs(after) else None
        if pause_lane and ((at is None and after is None) or self.jobs is not None):
            raise ValueError("pause_lane needs at, or after in seconds, which say for how long")
        self.pause_lane = pause_lane
        if at is not None:
            check_moment("at", at)
        self.at = at
        self.after = None if after is None or is_jobs(after) else check_delay(after, "after")
        super().__init__(at, after)


class Cancelled(Exception):
    """Raise it from a handler that saw ``job.cancelled`` and stopped: the job is cancelled, and leaves the board.

    If nobody asked for the job's cancel, it is a failure like any other exception.
    """


class Broken(Exception):
    """Raise it from a handler when no further attempt can help: the job goes to the trash, with its text as reason."""


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned."""

    result: Any = field(default=None, repr=False)
    #: What is posted in the same step.
    postings: tuple[Posting, ...] = ()


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised, took too long, or its process died; ``final`` if no further attempt can help.

    ``delay``: seconds until the next attempt, if the handler's own function says it.
    """

    reason: str
    error: str | None = None
    final: bool = False
    delay: float | None = None


@dataclass(frozen=True, slots=True)
class RunLater:
    """The handler asked to run again."""

    at: datetime | None = None
    after: float | None = None
    pause_lane: bool = False
    #: What it waits for, if that is jobs: postings, and uuids of jobs that are there.
    jobs: tuple[Posting | str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Returned:
    """The handler did not finish, and is not to blame: the job goes back, and the attempt is not counted.

    If its cancel was asked for, it leaves the board instead.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """The claim is lost: nothing is sent to the board."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The handler sleeps for so many seconds, or waits for a signal: for so many seconds, or (None) without an end.

    Or it waits for jobs, as :class:`RunLater` does; if all of these have ended, it goes on after so many seconds.
    """

    seconds: float | None
    signal: str | None
    jobs: tuple[Posting | str, ...] | None = None

    @property
    def reason(self) -> str:
        """What the job's history says."""
        if self.jobs is not None:
            return WAITS_FOR_JOBS
        return sleeps(self.seconds or 0.0) if self.signal is None else waits_for(self.signal)


@dataclass(frozen=True, slots=True)
class Batched:
    """A batch handler has ended: the outcomes of its jobs, in the order in which it got them."""

    outcomes: tuple[Outcome, ...]


Outcome = Succeeded | Failed | RunLater | Returned | Dropped | Suspended | Batched


class Suspension(BaseException):
    """Ends the run of a handler that sleeps or waits; no error, so that ``except Exception`` lets it pass."""

    def __init__(self, outcome: Suspended) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


def outcome_of_call(function: Callable[[], Any]) -> Outcome:
    """Call a handler and return its outcome, whatever it raises; an ``async`` one runs on a loop of its own."""
    pid = os.getpid()
    try:
        result = function()
        if issubclass(type(result), CoroutineType):
            import asyncio

            outcome = asyncio.run(outcome_of_coroutine(result))
        else:
            outcome = outcome_of_result(result)
    except BaseException as error:
        outcome = outcome_of_error(error)
    end_forked_child(pid, outcome)
    return outcome


def end_forked_child(pid: int, outcome: Outcome) -> None:
    """End this process unless it has this pid: a child that a handler forked must not continue as an executor."""
    if os.getpid() != pid:
        os._exit(0 if isinstance(outcome, Succeeded) else 1)


async def outcome_of_coroutine(coroutine: Coroutine[Any, Any, Any]) -> Outcome:
    """Await a handler and return its outcome; it never raises, since asyncio drops a task that raises SystemExit."""
    try:
        return outcome_of_result(await coroutine)
    except BaseException as error:
        return outcome_of_error(error)


def outcome_of_result(result: Any) -> Outcome:
    if result is None:
        return Succeeded()
    try:
        if isinstance(result, RunAgain):
            return _run_later(result)
        if isinstance(result, Suspended | Batched):
            return result
        # A copy as plain data, made in the handler's own thread: code of the handler, such as a dict's overridden
        # ``items``, must not run in a thread that serves other jobs.
        if isinstance(result, Then):
            return _outcome_of_then(result)
        return Succeeded(plain_copy("result", result))
    except InvalidPosting as error:
        return result_that_cannot_travel(error)
    except BaseException as error:
        return result_that_cannot_travel(f"reading it raised {name_of(error)}")


def _outcome_of_then(then: Then) -> Outcome:
    result = plain_copy("result", then.result)
    try:
        return Succeeded(result, fixed_postings(then.postings))
    except (TypeError, ValueError) as error:
        # Such as after=[something else than a job], of which the text says more than the type.
        return postings_that_cannot_follow(error)


def fixed_postings(postings: Iterable[Posting]) -> tuple[Posting, ...]:
    """Return what is posted with an end of the job, likewise: it can be pickled, and sent again.

    :raises InvalidPosting: details can't be stored, or a posting waits for one that is not among them.
    """
    return fixed(postings, partial(plain_copy, "details"))


def plain_copy(what: str, value: Any) -> Any:
    """Return a value as its reader without a converter will get it: plain data, which can also be pickled.

    :raises InvalidPosting: the value can't be stored.
    """
    converter = current_converter.get()
    encoded = encode(what, value, largest=_NO_LIMIT, converter=converter)
    return encoded.value if converter is None else decode(encoded.data, largest=_NO_LIMIT)


def outcome_of_error(error: BaseException) -> Outcome:
    """Return what becomes of the job whose handler, which runs here, has raised this."""
    return judged(read_error(error), error)


def judged(outcome: Outcome, error: BaseException, job: JobSnapshot | None = None) -> Outcome:
    """Return what the handler that runs here lets follow from its error, which was read.

    :param job: that the error is of; None: the one that the handler is called for.
    """
    current = current_error_rules.get()
    if current is None or not isinstance(outcome, Failed) or outcome.final:
        return outcome
    rules, called_for = current
    return rules.judge(outcome, error, job or called_for)


def read_error(error: BaseException) -> Outcome:
    """Return what an error says by itself."""
    try:
        return _outcome_of_readable(error)
    except BaseException:
        # Reading its text, its notes or its cause may raise in turn.
        return Failed(line_of(error))


def _outcome_of_readable(error: BaseException) -> Outcome:
    one = first_of(error) if is_only(error, (Broken,)) else alone(error)
    if isinstance(one, RunAgain):
        return _run_later(one)
    text = traceback_of(error, _from_handler(error))
    if isinstance(one, Broken):
        return Failed(text_of(one) or "its handler raised Broken", text, final=True)
    return Failed(line_of(one), text)


def is_only(error: BaseException, kinds: tuple[type[Exception], ...]) -> bool:
    """Whether an error is of one of these classes, or a group of nothing else, as a ``TaskGroup`` raises it."""
    if _is_group(error):
        return bool(kinds) and error.split(kinds)[1] is None
    return issubclass(type(error), kinds)


def alone(error: BaseException) -> BaseException:
    """Return the error of a group of one; any other as it is."""
    while _is_group(error) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def first_of(error: BaseException) -> BaseException:
    """Return the first error of a group; any other as it is."""
    while _is_group(error):
        error = error.exceptions[0]
    return error


def _is_group(error: BaseException) -> TypeGuard[BaseExceptionGroup[Any]]:
    # By its type alone: an error's ``__class__`` may raise.
    return issubclass(type(error), BaseExceptionGroup)


def _from_handler(error: BaseException) -> TracebackType | None:
    """Return the traceback from the handler's first frame on, without the frames of this library that called it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_LIBRARY):
        trace = trace.tb_next
    return trace


def _run_later(asked: RunAgain) -> Outcome:
    # Checked again, since a handler may have changed its attributes.
    checked = RunAgain(asked.at, asked.after if asked.jobs is None else asked.jobs, pause_lane=asked.pause_lane)
    try:
        jobs = None if checked.jobs is None else fixed_jobs(checked.jobs, fixed_postings)
    except (TypeError, ValueError) as error:
        return jobs_that_cannot_be_awaited(error)
    return RunLater(checked.at, checked.after, checked.pause_lane, jobs)


def as_cancelled(outcome: Outcome) -> Outcome:
    """Return the outcome of a job whose cancel was asked for: its failure is no failure."""
    return Returned(f"it was cancelled: {outcome.reason}") if isinstance(outcome, Failed) else outcome


def postings_that_cannot_follow(error: Exception) -> Failed:
    """The work is done and what was to follow is refused: another attempt may find a key free again."""
    return Failed(f"what should follow it can't be posted: {error}", final=not isinstance(error, AlreadyPosted))


def jobs_that_cannot_be_awaited(error: Exception) -> Failed:
    """The handler wants to wait for jobs, which is refused: another attempt may find a key free again."""
    return Failed(f"it can't wait for these jobs: {error}", final=not isinstance(error, AlreadyPosted))


def result_that_cannot_travel(error: Exception | str) -> Failed:
    """The work is done and its result is lost: operators must see it, and a repeat would fail in the same way."""
    return Failed(f"its result can't be kept: {error}", final=True)


#: The board checks the size.
_NO_LIMIT = 2**62
#: The beginning of the file names of this library.
_LIBRARY = f"{Path(__file__).parents[1]}{os.sep}"
