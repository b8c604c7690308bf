"""For how long the present call waits where another transaction has locked what it has to change."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

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
