"""For how long the present call may go on: set where it begins, kept wherever it waits for an answer of the store."""

from __future__ import annotations

import math
import time
from contextvars import ContextVar

_deadline: ContextVar[float] = ContextVar("jobboard_deadline", default=math.inf)

#: However late it is, an answer is waited for so many seconds: a time-out of 0 means none to many a library.
_LEAST = 0.05


class time_limit:
    """Give all requests of the block so many seconds together; an earlier limit that is sooner over stays.

    A class, because every request passes through it: a generator takes twice the time.
    """

    __slots__ = ("_seconds", "_token")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        self._token = _deadline.set(min(_deadline.get(), time.monotonic() + self._seconds))

    def __exit__(self, *_: object) -> None:
        _deadline.reset(self._token)


def seconds_left(most: float) -> float:
    """Return for how many seconds an answer may be waited for: ``most``, or less if the time limit says so."""
    return max(_LEAST, min(most, _deadline.get() - time.monotonic()))


def is_time_over() -> bool:
    """Whether nothing more should be begun."""
    return time.monotonic() >= _deadline.get()
