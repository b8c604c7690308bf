"""Notifying other processes of commits, apart from the transactions: a server queues the commits that notify."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from typing import Any

from jobboard.backends.sql.driver import Driver
from jobboard.backends.thread_end import wait_for_thread
from jobboard.backends.timelimit import time_limit
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.backends.sql")

#: How many seconds the thread and its connection outlive the last commit.
IDLE_TTL = 60.0
#: Seconds that one notification may take, a connection included; and until the next one after one that failed.
NOTIFY_TIMEOUT, RETRY_DELAY = 10.0, 1.0
#: Seconds after which a channel that nobody listened to is asked about again. A new listener reads what was committed
#: before, and is notified of the next commit by this much later at most.
UNHEARD_INTERVAL = 0.05
#: Closing waits this many seconds for what was requested.
STOP_TIMEOUT = 0.5


class CommitNotifier:
    """One thread that sends what was requested: a lone request at once, and of many no more than one per interval.

    A process may end between a commit and its notification, so those who wait also look from time to time.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        #: Channel -> seconds between two notifications on it.
        self._requested: dict[str, float] = {}
        self._next_at: dict[str, float] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def request(self, channel: str, interval: float) -> None:
        """Have a notification sent on a channel, ``interval`` seconds or more after its last one."""
        # One that is still requested is sent later than this, and so after the caller's commit.
        if channel in self._requested:
            return
        with self._lock:
            self._requested[channel] = interval
            if self._thread is None and not self._closed:
                self._start()
            self._changed.notify()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="jobboard-notify", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # What the caller has committed must not seem to fail because there can be no more threads now. The next
            # request tries again.
            self._requested.clear()
            return
        self._thread = thread
        # A program may end without closing its boards.
        atexit.register(self.close)

    def close(self) -> None:
        """Send what was requested and not sent yet, if the server replies in time."""
        # A forked child does not have the thread, and the lock may have been held at the fork.
        if self._pid != os.getpid():
            return
        with self._lock:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        wait_for_thread(thread, STOP_TIMEOUT)

    def _run(self) -> None:
        sender = _Sender(self._driver)
        try:
            while due := self._next_due():
                with time_limit(NOTIFY_TIMEOUT):
                    # One that the server refuses holds up no other.
                    for channel in due:
                        self._plan_next(channel, sender.send(channel))
        finally:
            sender.close()

    def _next_due(self) -> list[str]:
        """Wait for notifications that are due; return none when this thread is to end."""
        with self._lock:
            idle_at = time.monotonic() + IDLE_TTL
            while not (due := self._take()):
                at = min((self._next_at[channel] for channel in self._requested), default=idle_at)
                pause = at - time.monotonic()
                if self._closed or (pause <= 0 and not self._requested):
                    self._thread = None
                    atexit.unregister(self.close)
                    break
                self._changed.wait(max(0.0, pause))
            return due

    def _take(self) -> list[str]:
        now = time.monotonic()
        due = [channel for channel in self._requested if self._closed or self._next_at.get(channel, 0.0) <= now]
        for channel in due:
            # What is committed from now on requests another one.
            self._next_at[channel] = now + self._requested.pop(channel)
        return due

    def _plan_next(self, channel: str, is_heard: bool | None) -> None:
        if is_heard:
            return
        with self._lock:
            self._next_at[channel] = time.monotonic() + (RETRY_DELAY if is_heard is None else UNHEARD_INTERVAL)
            if is_heard is None and not self._closed:
                self._requested.setdefault(channel, 0.0)


class _Sender:
    """A connection for notifications, of one thread; it takes none that a call could use."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._connection: Any = None
        #: The channels whose last notifications failed.
        self._failing: set[str] = set()

    def send(self, channel: str) -> bool | None:
        """Notify the listeners of a channel; return whether there are any, or None if it failed."""
        try:
            is_heard = self._driver.notify_at_once(self._connected(), channel)
        except (BoardUnavailable, self._driver.error) as error:
            # Only the first of several failures in a row is a warning.
            level = logging.DEBUG if channel in self._failing else logging.WARNING
            self._failing.add(channel)
            where = self._driver.where
            logger.log(level, "%s: can't notify other processes, which look from time to time: %s", where, error)
            return None
        self._failing.discard(channel)
        return is_heard

    def _connected(self) -> Any:
        if self._connection is not None and not self._driver.is_alive(self._connection):
            self.close()
        if self._connection is None:
            self._connection = self._driver.connect(NOTIFY_TIMEOUT)
        return self._connection

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._driver.end(connection)
