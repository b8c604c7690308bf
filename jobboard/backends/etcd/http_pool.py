"""The pools of idle connections: urllib3's, with another queue.

urllib3 uses :class:`queue.LifoQueue`. What a signal's handler raises, such as KeyboardInterrupt, may leave the lock of
that queue taken, and then no request gets a connection any more. Here a deque takes its place, which needs no lock.
"""

from __future__ import annotations

import contextlib
import queue
from collections import deque
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool


def pooled_adapter(size: int) -> HTTPAdapter:
    """Return an adapter of ``requests`` for one endpoint, which keeps this many idle connections at most."""
    made = HTTPAdapter(pool_connections=1, pool_maxsize=size)
    made.poolmanager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
    return made


def close_idle(pool: HTTPConnectionPool) -> None:
    """Close the connections that are idle now; later requests open new ones."""
    idle: Any = pool.pool
    if idle is None:
        # Another thread has closed the board.
        return
    for _ in range(idle.qsize()):
        with contextlib.suppress(queue.Empty):
            if (connection := idle.get(block=False)) is not None:
                connection.close()


class _IdleConnections:
    """Last in, first out; what urllib3 uses of a queue. It never blocks."""

    def __init__(self, maxsize: int) -> None:
        self._maxsize = maxsize
        self._items: deque[Any] = deque()

    def qsize(self) -> int:
        return len(self._items)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        try:
            return self._items.pop()
        except IndexError:
            raise queue.Empty from None

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        # Threads that come at once may put in a few more, which does no harm.
        if len(self._items) >= self._maxsize:
            raise queue.Full
        self._items.append(item)


class _HttpPool(HTTPConnectionPool):
    QueueCls = _IdleConnections  # type: ignore[assignment]


class _HttpsPool(HTTPSConnectionPool):
    QueueCls = _IdleConnections  # type: ignore[assignment]
