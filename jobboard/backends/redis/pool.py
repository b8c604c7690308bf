"""A pool of connections to the server that has the board.

Why not redis-py's own pool, ``Retry`` and ``register_script`` (tried with redis-py 8.1.0):

- It sets the time limit when it makes a connection: a call that had 0.3 s left waited 5 s for a silent server.
- It raises the same ``ConnectionError`` whether nothing was sent or the reply was lost, and a board has to know that.
- By default it sends a mutation again after a lost reply (an ``INCR`` counted twice). Without its ``Retry`` it does not
  follow a redirection or a failover either, and ``RedisCluster`` repeats by itself.
- A call takes 1.1 to 1.2 times as long and 1.4 times the CPU; by ``register_script`` 1.2 to 1.5 times, and 1.6 times.

It would serve for forks, and for connections that broke while idle. What is used of redis-py stands in connection.py,
its errors in errors.py and client.py. Tested with redis-py 5.0.1 and 8.1.0.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from redis import exceptions

from jobboard.backends.redis.connection import REPLIES, Command, Connection, connect_within, exchange
from jobboard.backends.redis.errors import refused, reply_lost, unreachable
from jobboard.backends.redis.topology import Topology
from jobboard.backends.timelimit import is_time_over, seconds_left
from jobboard.errors import BoardUnavailable

MAX_IDLE = 64

_MAX_CONNECTS = 3
_CONNECT_PAUSE = 0.02


class ConnectionPool:
    """Each connection is used by one thread at a time.

    :param timeout: seconds for finding the server and connecting to it.
    :param reply_timeout: seconds for a reply, at most.
    """

    def __init__(self, topology: Topology, timeout: float, reply_timeout: float) -> None:
        self.topology = topology
        self._timeout = timeout
        self._reply_timeout = reply_timeout
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._generation = 0
        self._closed = True
        #: Called with each new connection, which may lead to another server than the one before; raises to refuse it.
        self.check: Callable[[Connection], None] | None = None
        #: Whether the last request was answered.
        self.answers = False

    def open(self) -> None:
        """Begin anew. A forked child closes its copies of its parent's connections; the old lock may never be free."""
        self._lock = threading.Lock()
        self.discard_idle()
        self.check = None
        self._closed = False

    def close(self) -> None:
        """Close all connections; those in use when their requests are done."""
        self._closed = True
        self.answers = False
        self.discard_idle()

    def exchange(self, connection: Connection, commands: Sequence[Command]) -> list[Any]:
        """Send commands in one round trip, and return the replies; a server's error is a reply too.

        :raises ReplyLost: a reply did not come; the commands may have been carried out.
        """
        try:
            replies = exchange(connection, commands, self._reply_timeout)
        except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
            self.answers = False
            raise reply_lost(str(self.topology), error) from None
        self.answers = True
        return replies

    def connect_to_all(self) -> Iterator[Connection]:
        """Yield a new connection, connected, to each server that has boards: one, but in a Cluster all primaries.

        :raises BoardUnavailable: one of them can't be reached, or refuses.
        """
        try:
            finders = self.topology.finders()
        except (exceptions.RedisError, OSError) as error:
            raise unreachable(str(self.topology), error) from None
        for find in finders:
            yield self.connect(find)

    def connect(self, find: Callable[[], Connection] | None = None) -> Connection:
        """Return a new connection, connected, that is not in the pool.

        :param find: makes the connection; None: the topology does, to the server that has the board.
        :raises BoardUnavailable: the server can't be reached, or refuses.
        """
        for left in reversed(range(_MAX_CONNECTS)):
            self._check_open()
            try:
                connection = (find or self.topology.find)()
                connect_within(connection, seconds_left(self._timeout))
                break
            except (*REPLIES, exceptions.ResponseError) as error:
                raise refused(str(self.topology), error) from None
            except (exceptions.RedisError, OSError) as error:
                self.answers = False
                self.topology.forget()
                if not left or is_time_over() or isinstance(error, (exceptions.TimeoutError, TimeoutError)):
                    raise unreachable(str(self.topology), error) from None
            # Nothing was asked yet, and the next connection may work.
            time.sleep(_CONNECT_PAUSE)
        if self.check is not None:
            try:
                self.check(connection)
            except BaseException:
                connection.disconnect()
                raise
        return connection

    def take(self) -> tuple[Connection, int]:
        """Return a connection that nobody else uses, and the generation to hand back with it."""
        with self._lock:
            generation = self._generation
            if self._idle:
                return self._idle.pop(), generation
        return self.connect(), generation

    def give(self, connection: Connection, generation: int) -> None:
        """Hand a connection back."""
        with self._lock:
            if not self._closed and generation == self._generation and len(self._idle) < MAX_IDLE:
                self._idle.append(connection)
                return
        connection.disconnect()

    def drop(self, connection: Connection, generation: int) -> None:
        """Close a broken connection, and all idle ones of its generation: each of those would cost a lost reply."""
        connection.disconnect()
        if generation == self._generation:
            self.discard_idle()
            self.topology.forget()

    def discard_idle(self) -> None:
        """Close all connections that are not in use."""
        with self._lock:
            self._generation += 1
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.disconnect()

    def _check_open(self) -> None:
        if self._closed:
            raise BoardUnavailable("the board is closed")
