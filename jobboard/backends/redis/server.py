"""Requests to the server that has the board: a pool of connections, and scripts called by their hashes."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from redis import exceptions

from jobboard.backends.redis.faults import cut_off, refused, unreachable
from jobboard.backends.redis.options import Durability
from jobboard.backends.redis.places import Connection, Place, connect_within, limit_socket
from jobboard.backends.redis.scripts import Script
from jobboard.backends.timelimit import is_time_over, seconds_left, time_limit
from jobboard.errors import BoardUnavailable, ReplyLost

Argument = str | bytes | int | float

#: Answers that the library takes for broken lines.
_ANSWERS = (exceptions.AuthenticationError, exceptions.AuthorizationError, exceptions.BusyLoadingError)
#: Answers by which a server says that it did nothing, and that another one will, or the same one soon.
_ELSEWHERE = (
    exceptions.AskError,
    exceptions.TryAgainError,
    exceptions.ClusterDownError,
    exceptions.ReadOnlyError,
    exceptions.BusyLoadingError,
)
_TRIES, _FIRST_PAUSE, _LONGEST_PAUSE = 8, 0.02, 0.4
_CONNECTS = 3

#: More idle connections than this are closed.
_MOST_IDLE = 64


class Server:
    """Sends one request per round trip, each on a connection that no other thread uses meanwhile.

    Nothing is ever sent twice here unless the server has said that it did nothing.

    :param patience: for how many seconds one request may go on, with finding the server, connecting and redirections;
        what its durability waits for comes on top.
    """

    def __init__(self, place: Place, durability: Durability, patience: float) -> None:
        self.place = place
        self._durability = durability
        self._patience = patience
        self._longest = patience + durability.milliseconds / 1000
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._generation = 0
        self._closed = True
        #: Whether the server has everything on its disk before it answers, so that it need not be asked to wait; every
        #: new connection may be to another server, and is asked.
        self.writes_through = False
        #: Whether the last request was answered.
        self.answers = False

    def open(self) -> None:
        """Begin anew. A forked child leaves to its parent what it inherited, a lock in another thread's hand too."""
        self._lock = threading.Lock()
        self._drop_idle()
        self.writes_through = False
        self._closed = False

    def close(self) -> None:
        """Close all connections; those in use when their request is over."""
        self._closed = True
        self.answers = False
        self._drop_idle()

    # -- requests --------------------------------------------------------------------------------------------------

    def run(self, script: Script, arguments: Sequence[Argument], *, changes: bool) -> list[Any]:
        """Call a script, and return its answer; load it first if the server does not know it (any more).

        :param changes: wait for what the durability asks for.
        """
        request: list[tuple[Argument, ...]] = [("EVALSHA", script.sha, 1, *arguments)]
        wait = self._durability.command if changes and not self.writes_through else None
        if wait is not None:
            request.append(wait)
        replies = self.send(request, script, 0.0 if wait is None else self._durability.milliseconds / 1000)
        if wait is not None and not self._durability.is_reached(replies[1]):
            raise ReplyLost(f"Redis at {self.place}: {wait[0]} was not reached within {wait[-1]} ms: {replies[1]!r}")
        reply: list[Any] = replies[0]
        return reply

    def send(
        self, commands: Sequence[tuple[Argument, ...]], script: Script | None = None, more: float = 0.0
    ) -> list[Any]:
        """Send commands in one round trip, and return all replies.

        :param more: for how many seconds longer than usual the server may take.
        """
        with time_limit(self._patience + more):
            return self._send(commands, script)

    def _send(self, commands: Sequence[tuple[Argument, ...]], script: Script | None) -> list[Any]:
        pause = _FIRST_PAUSE
        for left in reversed(range(_TRIES)):
            connection, generation = self._take()
            try:
                replies = self._exchange(connection, commands)
                if script is not None and isinstance(replies[0], exceptions.NoScriptError):
                    self._exchange(connection, [("SCRIPT", "LOAD", script.source)])
                    replies = self._exchange(connection, commands)
            except BaseException:
                self._drop(connection, generation)
                raise
            self._give(connection, generation)
            fault = next((reply for reply in replies if isinstance(reply, Exception)), None)
            if fault is None:
                return replies
            if not left or is_time_over() or not isinstance(fault, _ELSEWHERE) or replies[0] is not fault:
                raise self._refusal(fault, replies)
            self._follow(fault)
            time.sleep(0 if isinstance(fault, exceptions.MovedError) else pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError("the last try returns or raises")

    def _refusal(self, fault: Exception, replies: list[Any]) -> BoardUnavailable:
        """A mutation whose first reply is fine took effect, whatever is said about its copies."""
        error = refused(str(self.place), fault)
        return error if replies[0] is fault else ReplyLost(str(error))

    def _exchange(self, connection: Connection, commands: Sequence[tuple[Argument, ...]]) -> list[Any]:
        try:
            packed: list[Any] = []
            for command in commands:
                packed.extend(connection.pack_command(*command))
            limit_socket(connection, seconds_left(self._longest))
            connection.send_packed_command(packed, check_health=False)
            replies = [self._read(connection) for _ in commands]
        except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
            self.answers = False
            raise cut_off(str(self.place), error) from None
        self.answers = True
        return replies

    def _read(self, connection: Connection) -> Any:
        """Return a reply; the server's errors are replies too."""
        limit_socket(connection, seconds_left(self._longest))
        try:
            return connection.read_response(disconnect_on_error=False)
        except (*_ANSWERS, exceptions.ResponseError) as error:
            return error

    def _follow(self, fault: Exception) -> None:
        """Go where a redirection leads; for a slot that is on its way there is nowhere to go yet."""
        self._drop_idle()
        if isinstance(fault, exceptions.MovedError):
            self.place.moved(fault.host, fault.port)
        else:
            self.place.forget()

    # -- connections -----------------------------------------------------------------------------------------------

    def connect(self) -> Connection:
        """Return a connection that nobody else knows, connected."""
        for left in reversed(range(_CONNECTS)):
            if self._closed:
                raise BoardUnavailable("the board is closed")
            try:
                connection = self._connect()
                break
            except (*_ANSWERS, exceptions.ResponseError) as error:
                raise refused(str(self.place), error) from None
            except (exceptions.RedisError, OSError) as error:
                self.answers = False
                self.place.forget()
                if not left or is_time_over() or isinstance(error, (exceptions.TimeoutError, TimeoutError)):
                    raise unreachable(str(self.place), error) from None
            # A line that breaks while hands are shaken may be fine the next time, and nothing was asked yet.
            time.sleep(_FIRST_PAUSE)
        if self.writes_through:
            self._insist_on_disk(connection)
        return connection

    def _insist_on_disk(self, connection: Connection) -> None:
        try:
            if not self.sees_to_its_disk(connection):
                raise BoardUnavailable(f"Redis at {self.place} has appendonly yes and appendfsync always no more")
        except BaseException:
            connection.disconnect()
            raise

    def sees_to_its_disk(self, connection: Connection) -> bool:
        """Whether this server writes to its disk before it answers; False too if this user may not ask."""
        [answer] = self._exchange(connection, [("CONFIG", "GET", "append*")])
        if isinstance(answer, Exception):
            return False
        settings = dict(zip(answer[::2], answer[1::2], strict=True))
        return settings.get(b"appendonly") == b"yes" and settings.get(b"appendfsync") == b"always"

    def _connect(self) -> Connection:
        connection = self.place.find()
        connect_within(connection, seconds_left(self._patience))
        return connection

    def _take(self) -> tuple[Connection, int]:
        if self._closed:
            raise BoardUnavailable("the board is closed")
        with self._lock:
            generation = self._generation
            if self._idle:
                return self._idle.pop(), generation
        return self.connect(), generation

    def _give(self, connection: Connection, generation: int) -> None:
        with self._lock:
            if not self._closed and generation == self._generation and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.disconnect()

    def _drop(self, connection: Connection, generation: int) -> None:
        """One broken connection means that those of its time are broken too: each would cost a lost reply."""
        connection.disconnect()
        if generation == self._generation:
            self._drop_idle()
            self.place.forget()

    def _drop_idle(self) -> None:
        with self._lock:
            self._generation += 1
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.disconnect()
