"""For how long the present call may go on: set where it begins, kept wherever it waits for an answer of the store."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from contextvars import ContextVar

_deadline: ContextVar[float] = ContextVar("jobboard_deadline", default=math.inf)

#: However late it is, an answer is waited for so many seconds: a time-out of 0 means none to many a library.
_LEAST = 0.05


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Give all requests of the block so many seconds together; an earlier limit that is sooner over stays."""
    token = _deadline.set(min(_deadline.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _deadline.reset(token)


def seconds_left(most: float) -> float:
    """Return for how many seconds an answer may be waited for: ``most``, or less if the time limit says so."""
    return max(_LEAST, min(most, _deadline.get() - time.monotonic()))


def is_time_over() -> bool:
    """Whether nothing more should be begun."""
    return time.monotonic() >= _deadline.get()
