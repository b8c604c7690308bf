"""Hearing what the scripts publish: one connection and one thread for all who wait and listen at one client."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection

from redis import exceptions

from jobboard.backends.redis.places import Connection
from jobboard.backends.timelimit import seconds_left
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.redis")

Hear = Callable[[bytes], None]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0


class Ear:
    """Subscribes to channels while somebody wants them, and again after every break of the connection.

    :param connect: makes a connection whose reads time out after some seconds; a silence of two such times is a break.
    :param rejoined: called after every break, since something may have been missed.
    """

    def __init__(self, connect: Callable[[], Connection], patience: float, rejoined: Callable[[], None]) -> None:
        self._connect = connect
        self._patience = patience
        self._rejoined = rejoined
        self._changed = threading.Condition()
        self._wanted: dict[bytes, list[Hear]] = {}
        self._subscribed: set[bytes] = set()
        self._connection: Connection | None = None
        self._fault: Exception | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def hear(self, channels: Collection[bytes], hear: Hear) -> Callable[[], None]:
        """Hand every later message of these channels to ``hear``; the answer ends it, and is idempotent."""
        with self._changed:
            self._check_open()
            for channel in channels:
                self._wanted.setdefault(channel, []).append(hear)
            self._fault = None
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="jobboard-redis", daemon=True)
                self._thread.start()
            else:
                self._send("SSUBSCRIBE", [channel for channel in channels if channel not in self._subscribed])
            self._changed.wait_for(lambda: self._is_settled(channels), seconds_left(self._patience))
            if not self._subscribed.issuperset(channels):
                self._unwant(channels, hear)
                self._check_open()
                raise BoardUnavailable(f"can't subscribe: {self._fault or 'no answer'}")

        def end() -> None:
            with self._changed:
                self._unwant(channels, hear)

        return end

    def close(self) -> None:
        """End the thread and the connection."""
        with self._changed:
            self._closed = True
            self._wanted.clear()
            self._changed.notify_all()
            connection, thread = self._connection, self._thread
        if connection is not None:
            connection.disconnect()
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds_left(self._patience))

    def _is_settled(self, channels: Collection[bytes]) -> bool:
        return self._closed or self._fault is not None or self._subscribed.issuperset(channels)

    def _check_open(self) -> None:
        if self._closed:
            raise BoardUnavailable("the board is closed")

    def _unwant(self, channels: Collection[bytes], hear: Hear) -> None:
        left = []
        for channel in channels:
            listeners = self._wanted.get(channel, [])
            if hear in listeners:
                listeners.remove(hear)
            if channel in self._wanted and not listeners:
                del self._wanted[channel]
                left.append(channel)
        self._send("SUNSUBSCRIBE", left)

    def _send(self, command: str, channels: Collection[bytes]) -> None:
        """Send under the lock; a break here is met by the thread too, which then subscribes to all that is wanted."""
        if self._connection is None or not channels:
            return
        if command == "SUNSUBSCRIBE":
            self._subscribed.difference_update(channels)
        try:
            self._connection.send_command(command, *channels, check_health=False)
        except (exceptions.RedisError, OSError) as error:
            logger.debug("%s failed: %s", command, error)

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while not self._closed:
            try:
                self._listen()
                return
            except (exceptions.RedisError, OSError, BoardUnavailable) as error:
                with self._changed:
                    was_connected = self._connection is not None
                    self._forget_connection(error)
                    if was_connected:
                        pause = _FIRST_PAUSE
                    self._changed.wait_for(lambda: self._closed, pause)
            except AttributeError:
                # redis-py forgets its reader when another thread, that of close(), disconnects amid a read.
                if not self._closed:
                    raise
                return
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _forget_connection(self, error: Exception) -> None:
        if self._connection is not None:
            self._connection.disconnect()
        self._connection = None
        self._subscribed.clear()
        self._fault = error
        self._changed.notify_all()
        if not self._closed:
            logger.debug("the listening connection is gone: %s", error)

    def _listen(self) -> None:
        connection = self._connect()
        with self._changed:
            if self._closed:
                connection.disconnect()
                return
            self._connection = connection
            self._fault = None
            self._send("SSUBSCRIBE", list(self._wanted))
        asked = None
        while not self._closed:
            try:
                message = connection.read_response(disconnect_on_error=False)
            except exceptions.TimeoutError:
                if asked is not None:
                    raise
                asked = time.monotonic()
                with self._changed:
                    connection.send_command("PING", check_health=False)
                continue
            asked = None
            self._take(message)

    def _take(self, message: list[bytes]) -> None:
        match message:
            case [b"smessage", channel, data]:
                for hear in list(self._wanted.get(channel, ())):
                    hear(data)
            case [b"ssubscribe", channel, _]:
                with self._changed:
                    if channel in self._wanted:
                        self._subscribed.add(channel)
                    self._changed.notify_all()
                    complete = self._subscribed.issuperset(self._wanted)
                if complete:
                    self._rejoined()
            case [b"sunsubscribe", channel, _] if channel in self._subscribed:
                # Nobody here asked for that: in a Cluster, the channel's slot has moved to another node.
                raise exceptions.ConnectionError("the board has moved")
