"""Receives what the scripts publish: one connection and one thread for all who wait and listen at one client."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection

from redis import exceptions

from jobboard.backends.redis.connection import Connection
from jobboard.backends.thread_end import wait_for_thread
from jobboard.backends.timelimit import seconds_left
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.redis")

Handler = Callable[[bytes], None]

_FIRST_PAUSE, _MAX_PAUSE = 0.05, 2.0

#: After how many silences in a row the server is asked whether it is there. To ask after each would be a third of what
#: an idle conductor sends, and whoever waits looks by himself meanwhile.
_SILENCES = 3


class Subscriber:
    """Subscribes to channels while they have handlers, and again after every break of the connection.

    :param connect: makes a connection whose reads time out after some seconds; four such silences in a row are a break.
    :param timeout: seconds within which the server must confirm a subscription.
    :param resubscribed: called after every break, because messages may have been missed.
    """

    def __init__(self, connect: Callable[[], Connection], timeout: float, resubscribed: Callable[[], None]) -> None:
        self._connect = connect
        self._timeout = timeout
        self._resubscribed = resubscribed
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._handlers: dict[bytes, list[Handler]] = {}
        self._subscribed: set[bytes] = set()
        self._connection: Connection | None = None
        self._fault: Exception | None = None
        #: Whether a connection broke since everybody was told last.
        self._has_broken = False
        #: Seconds until the next try to connect.
        self._pause = _FIRST_PAUSE
        self._thread: threading.Thread | None = None
        self._closed = False

    def subscribe(self, channels: Collection[bytes], handle: Handler) -> Callable[[], None]:
        """Hand every later message of these channels to ``handle``; the function returned ends it, and is idempotent.

        :raises BoardUnavailable: the server did not confirm the subscription in time.
        """
        with self._lock:
            self._check_open()
            is_running = self._thread is not None
            if not is_running:
                thread = threading.Thread(target=self._run, name="jobboard-redis", daemon=True)
                thread.start()
                self._thread = thread
            for channel in channels:
                self._handlers.setdefault(channel, []).append(handle)
            self._fault = None
            if is_running:
                self._send("SSUBSCRIBE", [channel for channel in channels if channel not in self._subscribed])
            self._changed.wait_for(lambda: self._is_answered(channels), seconds_left(self._timeout))
            if not self._subscribed.issuperset(channels):
                self._unsubscribe(channels, handle)
                self._check_open()
                raise BoardUnavailable(f"can't subscribe: {self._fault or 'no answer'}")

        def end() -> None:
            with self._lock:
                self._unsubscribe(channels, handle)

        return end

    def close(self) -> None:
        """End the thread and the connection."""
        with self._lock:
            self._closed = True
            self._handlers.clear()
            self._changed.notify_all()
            connection, thread = self._connection, self._thread
        if connection is not None:
            connection.disconnect()
        wait_for_thread(thread, seconds_left(self._timeout))

    def _is_answered(self, channels: Collection[bytes]) -> bool:
        return self._closed or self._fault is not None or self._subscribed.issuperset(channels)

    def _check_open(self) -> None:
        if self._closed:
            raise BoardUnavailable("the board is closed")

    def _unsubscribe(self, channels: Collection[bytes], handle: Handler) -> None:
        unused = []
        for channel in channels:
            handlers = self._handlers.get(channel, [])
            if handle in handlers:
                handlers.remove(handle)
            if channel in self._handlers and not handlers:
                del self._handlers[channel]
                unused.append(channel)
        self._send("SUNSUBSCRIBE", unused)

    def _send(self, command: str, channels: Collection[bytes]) -> None:
        """Send under the lock. If that fails, the thread connects and subscribes again: redis-py would only connect."""
        if self._connection is None or not channels:
            return
        if command == "SUNSUBSCRIBE":
            self._subscribed.difference_update(channels)
        try:
            self._connection.send_command(command, *channels, check_health=False)
        except (exceptions.RedisError, OSError) as error:
            self._forget_connection(error)

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed:
            try:
                self._listen()
                return
            except Exception as error:
                # After any fault: without this thread nobody would hear anything. redis-py before 8 raises an
                # AttributeError when another thread disconnects during a read.
                with self._lock:
                    self._forget_connection(error)
                    self._changed.wait_for(lambda: self._closed, self._pause)
                    self._pause = min(2 * self._pause, _MAX_PAUSE)

    def _forget_connection(self, error: Exception) -> None:
        if self._connection is not None:
            self._connection.disconnect()
            self._pause = _FIRST_PAUSE
            self._has_broken = True
        self._connection = None
        self._subscribed.clear()
        self._fault = error
        self._changed.notify_all()
        if not self._closed:
            logger.debug("the subscriber's connection is gone: %r", error)

    def _listen(self) -> None:
        connection = self._connect()
        with self._lock:
            if self._closed:
                connection.disconnect()
                return
            self._connection = connection
            self._fault = None
            self._send("SSUBSCRIBE", list(self._handlers))
        silences = 0
        while not self._closed:
            try:
                message = connection.read_response(disconnect_on_error=False)
            except exceptions.TimeoutError:
                silences += 1
                if silences > _SILENCES:
                    raise
                with self._lock:
                    if silences == _SILENCES and connection is self._connection:
                        connection.send_command("PING", check_health=False)
                continue
            silences = 0
            self._dispatch(message)

    def _dispatch(self, message: list[bytes]) -> None:
        match message:
            case [b"smessage", channel, data]:
                for handle in list(self._handlers.get(channel, ())):
                    handle(data)
            case [b"ssubscribe", channel, _]:
                with self._lock:
                    if channel in self._handlers:
                        self._subscribed.add(channel)
                    self._changed.notify_all()
                    is_resubscribed = self._has_broken and self._subscribed.issuperset(self._handlers)
                    self._has_broken = self._has_broken and not is_resubscribed
                if is_resubscribed:
                    self._resubscribed()
            case [b"sunsubscribe", channel, _] if channel in self._subscribed:
                # The server unsubscribed by itself: in a Cluster, the channel's slot has moved to another node.
                raise exceptions.ConnectionError("the board has moved")
