"""For how long the present call may go on: set where it begins, kept wherever it waits for an answer of the store."""

from __future__ import annotations

import math
import time
import weakref
from contextvars import ContextVar, Token

#: However late it is, an answer is waited for this many seconds: a time-out of 0 means none to many a library.
_LEAST = 0.05


class time_limit:
    """Give all requests of the block this many seconds together; an earlier limit that is sooner over stays.

    A class, because every request passes through it: a generator takes twice the time.
    """

    __slots__ = ("__weakref__", "_before", "_seconds", "deadline")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        self.deadline = min(_deadline(), time.monotonic() + self._seconds)
        self._before: Token[weakref.ref[time_limit] | None] = _limit.set(weakref.ref(self))

    def __exit__(self, *_: object) -> None:
        _limit.reset(self._before)


#: Weak, since a block may end without its exit: what a signal's handler raises may come as that begins. A limit that
#: stayed would fail all later requests of the thread.
_limit: ContextVar[weakref.ref[time_limit] | None] = ContextVar("jobboard_limit", default=None)


def _deadline() -> float:
    reference = _limit.get()
    limit = None if reference is None else reference()
    return math.inf if limit is None else limit.deadline


def seconds_left(most: float) -> float:
    """Return for how many seconds an answer may be waited for: ``most``, or less if the time limit says so."""
    return max(_LEAST, min(most, _deadline() - time.monotonic()))


def is_time_over() -> bool:
    """Whether nothing more should be begun."""
    return time.monotonic() >= _deadline()
