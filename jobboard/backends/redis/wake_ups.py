"""The wake-ups of a waiter that reads them itself, from a subscribed connection of its own."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

from redis import exceptions

from jobboard.backends.redis.connection import Connection, break_off, receive
from jobboard.backends.timelimit import seconds_left
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.redis")

#: After how many seconds without a message the server is asked for one, and how long it may then be silent.
_CHECK_AFTER, _CHECK_TIMEOUT = 14.0, 4.0
#: Seconds before a connection is opened again that lived no longer than this: some are closed as soon as they are open.
_OPEN_PAUSE = 0.1


class WakeUps(threading.Condition):
    """A condition whose one waiter reads a subscribed connection, so that no other thread has to wake it.

    To notify it from another thread breaks the connection, which that waiter opens again before it waits the next time.

    :param lock: the condition's lock.
    :param connect: makes a connection.
    :param timeout: seconds within which the server must confirm the subscription.
    :param hear: is called with each message, without the condition's lock: it may take others.
    :param missed: is called when messages may have been missed, under that lock.
    """

    def __init__(
        self,
        lock: threading.RLock,
        connect: Callable[[], Connection],
        channel: bytes,
        timeout: float,
        hear: Callable[[bytes], None],
        missed: Callable[[], None],
    ) -> None:
        super().__init__(lock)
        self._connect = connect
        self._channel = channel
        self._timeout = timeout
        self._hear = hear
        self._missed = missed
        self._connection: Connection | None = None
        self._is_reading = False
        self._opened_at = -math.inf
        self._heard_at = -math.inf
        self._asked_at: float | None = None

    def open(self) -> None:
        """Subscribe, unless it is subscribed.

        :raises BoardUnavailable: the server can't be reached, or did not confirm it in time.
        """
        if self._connection is not None:
            return
        if time.monotonic() - self._opened_at < _OPEN_PAUSE:
            time.sleep(_OPEN_PAUSE)
        connection = self._connect()
        try:
            connection.send_command("SSUBSCRIBE", self._channel, check_health=False)
            answer = receive(connection, seconds_left(self._timeout))
            if answer is None or answer[0] != b"ssubscribe":
                raise exceptions.ConnectionError("no answer")
        except (exceptions.RedisError, OSError) as error:
            connection.disconnect()
            raise BoardUnavailable(f"can't subscribe: {error}") from None
        self._connection, self._asked_at = connection, None
        self._opened_at = self._heard_at = time.monotonic()

    def close(self) -> None:
        """Disconnect; to be called by the waiter itself."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    def wait(self, timeout: float | None = None) -> bool:
        """Read a message; False if none came in time. The lock is released meanwhile."""
        connection = self._connection
        if connection is None:
            self._missed()
            return True
        self._is_reading = True
        self.release()
        try:
            message = self._receive(connection, self._timeout if timeout is None else timeout)
        except (exceptions.RedisError, OSError) as error:
            logger.debug("a waiter's connection is gone: %s", error)
            message = []
        finally:
            self.acquire()
            self._is_reading = False
        if message is None:
            return False
        match message:
            case [b"smessage", _, b""]:
                # What was asked for.
                pass
            case [b"smessage", _, data]:
                self.release()
                try:
                    self._hear(data)
                finally:
                    self.acquire()
            case _:
                # It broke, or the server has ended the subscription since the board has moved to another node.
                self.close()
                self._missed()
        return True

    @property
    def wants_message(self) -> bool:
        """Whether the waiter is to ask for an empty message with its next look: so a silent connection is known."""
        return self._asked_at is None and time.monotonic() - self._heard_at > _CHECK_AFTER

    def expect_message(self) -> None:
        """Learn that the server has sent one."""
        self._asked_at = time.monotonic()

    def _receive(self, connection: Connection, timeout: float) -> list[bytes] | None:
        """Return the next message, or None.

        :raises exceptions.TimeoutError: what the server has sent does not come.
        """
        message = receive(connection, timeout)
        if message is not None:
            self._heard_at, self._asked_at = time.monotonic(), None
        elif self._asked_at is not None and time.monotonic() - self._asked_at > _CHECK_TIMEOUT:
            raise exceptions.TimeoutError("a message did not come")
        return message

    def notify(self, n: int = 1) -> None:
        """Let the waiter return, if it waits in another thread."""
        if self._is_reading and self._connection is not None:
            break_off(self._connection)

    notify_all = notify
