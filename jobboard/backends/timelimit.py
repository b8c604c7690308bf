"""For how long the present call may go on, and wait for locks: set where it begins, kept wherever it waits."""

from __future__ import annotations

import contextlib
import math
import time
import weakref
from collections.abc import Iterator
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


#: Seconds, unless :func:`lock_wait` says otherwise.
_USUAL = 10.0

_seconds: ContextVar[float] = ContextVar("jobboard_lock_wait", default=_USUAL)


@contextlib.contextmanager
def lock_wait(seconds: float) -> Iterator[None]:
    """Let each call of the block wait no longer than this; what waits in the store meanwhile takes a second at most."""
    token = _seconds.set(seconds)
    try:
        yield
    finally:
        _seconds.reset(token)


def seconds_for_locks() -> float:
    """Return for how many seconds a call may wait for locks, from its beginning on."""
    return _seconds.get()
