"""What becomes of a job whose handler raises: how long it waits for the next attempt, and which errors are final."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jobboard.conductor.calling import is_async, place_of, signature_of
from jobboard.conductor.log import logger
from jobboard.conductor.outcome import Broken, Failed, alone, is_only
from jobboard.text import line_of
from jobboard.types import BackoffFunction, Seconds
from jobboard.validation import check_delay, check_number

if TYPE_CHECKING:
    from jobboard.conductor.job_facts import JobSnapshot


@dataclass(frozen=True, init=False, slots=True)
class Backoff:
    """The delays between the attempts of a job: they grow by a factor, up to a maximum.

    :param first: seconds after the first failure.
    :param factor: each further delay is this many times the one before; 1 to 1000.
    :param most: seconds of the longest delay.
    :param jitter: the share, 0 to 1, by which a delay is randomly longer or shorter, so that jobs that failed together
        don't run again together.
    :raises ValueError: an argument is out of its range.
    :raises TypeError: an argument is no number.
    """

    first: float
    factor: float
    most: float
    jitter: float

    def __init__(self, first: Seconds = 1.0, factor: float = 2.0, most: Seconds = 300.0, jitter: float = 0.1) -> None:
        if not 1 <= check_number("factor", factor) <= 1000:
            raise ValueError(f"factor must be from 1 to 1000; got {factor!r}")
        if not 0 <= check_number("jitter", jitter) <= 1:
            raise ValueError(f"jitter must be from 0 to 1; got {jitter!r}")
        object.__setattr__(self, "first", check_delay(first, "first"))
        object.__setattr__(self, "factor", factor)
        object.__setattr__(self, "most", check_delay(most, "most"))
        object.__setattr__(self, "jitter", jitter)

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after the failure of this attempt; the first is 1."""
        # The exponent has a bound, or the float overflows after many failures; and the longest delay with its jitter
        # is ``most``.
        plain = min(self.first * self.factor ** min(attempt - 1, 64), self.most / (1 + self.jitter))
        return plain * (1 + random.uniform(-self.jitter, self.jitter))


@dataclass(frozen=True, slots=True)
class ErrorRules:
    """What a handler lets follow from the errors that it raises; applied where it raises them, also in workers."""

    #: The classes of errors after which no further attempt can help.
    broken_on: tuple[type[Exception], ...] = ()
    #: The handler's own function for delays, if it has one.
    delay: BackoffFunction | None = None

    def judge(self, failed: Failed, error: BaseException, job: JobSnapshot) -> Failed:
        """Return what becomes of a job whose handler has raised this."""
        if is_only(error, self.broken_on):
            return replace(failed, final=True)
        one = alone(error)
        if self.delay is None or not isinstance(one, Exception):
            return failed
        try:
            return replace(failed, delay=check_delay(self.delay(job.attempts, one), "backoff"))
        except Broken:
            return replace(failed, final=True)
        except BaseException as fault:
            text = "the backoff of job %s gives no delay, and the default one is taken: %s"
            logger.warning(text, job.uuid, line_of(fault))
            return failed


def check_backoff(value: object) -> Backoff | BackoffFunction:
    """Return what says how long a job waits, if it can.

    :raises TypeError: it is neither a :class:`Backoff` nor a plain function of the attempt and the error.
    """
    if isinstance(value, Backoff):
        return value
    if not callable(value) or isinstance(value, type):
        got = f"the class {value.__qualname__}" if isinstance(value, type) else type(value).__name__
        raise TypeError(f"backoff must be a Backoff, or a function of the attempt and the error, not {got}")
    if is_async(value):
        raise TypeError(f"the backoff {place_of(value)} must be a plain function; it is async")
    try:
        signature = signature_of(value)
    except ValueError:
        # Some callables in C have none.
        return value
    try:
        signature.bind(1, None)
    except TypeError as error:
        raise TypeError(
            f"the backoff {place_of(value)} can't be called with an attempt and an error: {error}"
        ) from None
    return value


def check_broken_on(value: object) -> tuple[type[Exception], ...]:
    """Return classes of errors, given as ``except`` takes them.

    :raises TypeError: it is something else.
    """
    given = value if isinstance(value, tuple | list | set | frozenset) else (value,)
    for one in given:
        if not (isinstance(one, type) and issubclass(one, Exception)):
            raise TypeError(f"broken_on must be a class of exceptions, or a tuple of such, not {one!r}")
    return tuple(given)
