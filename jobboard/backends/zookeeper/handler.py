"""What the board's own kazoo client runs on: kazoo's threads, with a cheaper wait and a shorter way to some watches.

kazoo waits for its sockets five times a request, and makes an epoll object of its own for each.
"""

from __future__ import annotations

import logging
import math
import select
import threading
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler
from kazoo.handlers.utils import AsyncResult
from kazoo.protocol.states import Callback

logger = logging.getLogger("jobboard.zookeeper")

Function = TypeVar("Function", bound=Callable[..., Any])

#: Windows has none.
_HAS_POLL = hasattr(select, "poll")


def runs_at_once(function: Function) -> Function:
    """Mark a watch that never blocks: the thread of the connection calls it, instead of waking another one for it."""
    function.runs_at_once = True  # type: ignore[attr-defined]
    return function


class ResultCondition(threading.Condition):
    """One that no interrupt leaves locked; kazoo's thread would wait for it with the answer, and with all later ones.

    Python runs signals' handlers as a function of Python begins or goes on. threading.Condition is entered and left by
    such ones, this one by the lock's own, in C.
    """

    __enter__ = property(attrgetter("mutex.__enter__"))
    __exit__ = property(attrgetter("mutex.__exit__"))

    def __init__(self) -> None:
        self.mutex = threading.RLock()
        super().__init__(self.mutex)

    def wait(self, timeout: float | None = None) -> bool:
        try:
            return super().wait(timeout)
        finally:
            # Interrupted when it has just let go of the lock, it does not take it again; the end of the block, which
            # lets go of it as well, would raise RuntimeError in place of the interrupt.
            if not self.mutex._is_owned():  # type: ignore[attr-defined]
                self.mutex.acquire()


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """Belongs to one client."""

    def async_result(self) -> AsyncResult:
        return AsyncResult(self, ResultCondition, KazooTimeoutError)

    def dispatch_callback(self, callback: Callback) -> None:
        if not getattr(callback.func, "runs_at_once", False):
            super().dispatch_callback(callback)
            return
        try:
            callback.func(*callback.args)
        except Exception:
            # Without the thread of the connection there would be no connection any more.
            logger.exception("a watch met a fault")

    def select(
        self, rlist: Sequence[Any], wlist: Sequence[Any], xlist: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        if not _HAS_POLL:
            ready: tuple[list[Any], list[Any], list[Any]] = super().select(rlist, wlist, xlist, timeout)
            return ready
        readers, writers = ({file.fileno(): file for file in files} for files in (rlist, wlist))
        poll = select.poll()
        for fd in readers:
            poll.register(fd, select.POLLIN)
        for fd in writers:
            poll.register(fd, select.POLLOUT)
        # An error or a hang-up counts as ready, so that the read or the write meets it.
        told = [fd for fd, _ in poll.poll(None if timeout is None else max(0, math.ceil(timeout * 1000)))]
        return [readers[fd] for fd in told if fd in readers], [writers[fd] for fd in told if fd in writers], []
