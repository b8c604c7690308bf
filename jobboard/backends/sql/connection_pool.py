"""The connections that the threads of one board share.

Why not SQLAlchemy's QueuePool: its timeout is fixed, and here the time limit of the present call ends the wait for a
connection; it checks an idle connection by a round trip (``pre_ping``), and here a look at the socket is enough; and it
can't take in a connection that was made elsewhere. Taking and giving back a connection costs 1.9 µs of CPU here and
7.5 µs there (SQLAlchemy 2.1.9, CPython 3.11). Tested with psycopg 3.3.9 and PyMySQL 1.2.4.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from jobboard.backends.timelimit import seconds_left
from jobboard.errors import BoardUnavailable

#: For so many seconds a thread waits until another one has finished with its connection.
QUEUE_TIMEOUT = 30.0


class ConnectionPool:
    """Lends each connection to one thread at a time, the last used one first.

    :param connect: makes a connection; raises BoardUnavailable.
    :param is_alive: whether a connection that was idle can be used still; costs no round trip.
    :param end: closes one, whatever state it is in, and raises nothing.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        is_alive: Callable[[Any], bool],
        end: Callable[[Any], None],
        largest: int,
    ) -> None:
        self._connect, self._is_alive, self._end = connect, is_alive, end
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._idle: list[Any] = []
        self._free = largest
        self._closed = False

    def take(self) -> Any:
        while (connection := self._take_idle()) is not None:
            # Without the lock, since other threads run while the socket is looked at.
            try:
                if self._is_alive(connection):
                    return connection
            except BaseException:
                # What a signal's handler raises, say.
                self._drop(connection)
                raise
            self._drop(connection)
        try:
            return self._connect()
        except BaseException:
            self._one_is_free()
            raise

    def _take_idle(self) -> Any | None:
        """Return a connection that is idle, or None if the caller is to make one."""
        with self._lock:
            longest = seconds_left(QUEUE_TIMEOUT)
            if not self._changed.wait_for(lambda: self._closed or self._idle or self._free, longest):
                raise BoardUnavailable(f"all connections were busy for {longest:.0f} seconds; raise pool_size")
            if self._idle:
                return self._idle.pop()
            if self._closed:
                raise BoardUnavailable("the board is closed; call connect() first")
            self._free -= 1
            return None

    def adopt(self, connection: Any) -> None:
        """Take in a connection that was made elsewhere."""
        with self._lock:
            self._free -= 1
        self.give_back(connection)

    def give_back(self, connection: Any) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                self._changed.notify()
                return
        self._end(connection)

    def discard(self, connection: Any) -> None:
        """End one that broke, and those that are idle: what broke one line may have broken all, without a word."""
        self._drop(connection)
        self._end_idle()

    def close(self) -> None:
        """End all that are idle, now, and the others when they are given back."""
        with self._lock:
            self._closed = True
        self._end_idle()

    def _end_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
            self._free += len(idle)
            self._changed.notify_all()
        for connection in idle:
            self._end(connection)

    def _drop(self, connection: Any) -> None:
        self._end(connection)
        self._one_is_free()

    def _one_is_free(self) -> None:
        with self._lock:
            self._free += 1
            self._changed.notify()
