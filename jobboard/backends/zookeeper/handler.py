"""What the board's own kazoo client runs on: kazoo's threads, with a cheaper wait and a shorter way to some watches.

kazoo waits for its sockets five times a request, and makes an epoll object of its own for each. It reads the length of
each reply, and then the reply, and waits before each.
"""

from __future__ import annotations

import logging
import math
import select
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import Callback

logger = logging.getLogger("jobboard.zookeeper")

Function = TypeVar("Function", bound=Callable[..., Any])

#: Windows has none.
_HAS_POLL = hasattr(select, "poll")
#: How many bytes are read at once, if so many have come.
_MAX_READ = 1 << 16


def runs_at_once(function: Function) -> Function:
    """Mark a watch that never blocks: the thread of the connection calls it, instead of waking another one for it."""
    function.runs_at_once = True  # type: ignore[attr-defined]
    return function


class ReadAheadSocket(socket.socket):
    """Has read what has come as soon as it counts as ready; kazoo waits only while nothing is ``pending``.

    :param connected: is taken over.
    """

    def __init__(self, connected: socket.socket) -> None:
        timeout = connected.gettimeout()
        super().__init__(fileno=connected.detach())
        self.settimeout(timeout)
        self._ahead = b""

    def read_ahead(self) -> None:
        try:
            self._ahead = self._ahead or super().recv(_MAX_READ)
        except BlockingIOError:
            # Nothing has come after all; whoever reads waits.
            pass

    def pending(self) -> int:
        return len(self._ahead)

    def recv(self, size: int, flags: int = 0) -> bytes:
        if not self._ahead:
            return super().recv(size, flags)
        data, self._ahead = self._ahead[:size], self._ahead[size:]
        return data


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """Belongs to one client."""

    def dispatch_callback(self, callback: Callback) -> None:
        if not getattr(callback.func, "runs_at_once", False):
            super().dispatch_callback(callback)
            return
        try:
            callback.func(*callback.args)
        except Exception:
            # Without the thread of the connection there would be no connection any more.
            logger.exception("a watch met a fault")

    def create_connection(self, *args: Any, **kwargs: Any) -> socket.socket:
        made: socket.socket = super().create_connection(*args, **kwargs)
        return made if isinstance(made, ssl.SSLSocket) else ReadAheadSocket(made)

    def select(
        self, rlist: Sequence[Any], wlist: Sequence[Any], xlist: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        ahead = [file for file in rlist if isinstance(file, ReadAheadSocket) and file.pending()]
        readable, writable = self._ready(rlist, wlist, 0 if ahead else timeout)
        for file in readable:
            if isinstance(file, ReadAheadSocket):
                file.read_ahead()
        return [file for file in rlist if file in ahead or file in readable] if ahead else readable, writable, []

    def _ready(self, rlist: Sequence[Any], wlist: Sequence[Any], timeout: float | None) -> tuple[list[Any], list[Any]]:
        if not _HAS_POLL:
            readable, writable, _ = super().select(rlist, wlist, [], timeout)
            return readable, writable
        poll = select.poll()
        for file in rlist:
            poll.register(file, select.POLLIN)
        for file in wlist:
            poll.register(file, select.POLLOUT)
        # An error or a hang-up counts as ready, so that the read or the write meets it.
        told = {fd for fd, _ in poll.poll(None if timeout is None else max(0, math.ceil(timeout * 1000)))}
        return [file for file in rlist if file.fileno() in told], [file for file in wlist if file.fileno() in told]
