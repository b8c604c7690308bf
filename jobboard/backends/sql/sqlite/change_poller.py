"""Noticing what other processes commit to an SQLite file: at once when they notify, else by polling."""

from __future__ import annotations

import contextlib
import select
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DBAPIError

from jobboard.backends.sql.database import ChangePoller
from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.sqlite.connection import ForkSafeConnection
from jobboard.backends.sql.sqlite.errors import explain
from jobboard.backends.sql.sqlite.notifications import NotificationReader
from jobboard.backends.sql.statement import Statement

#: How soon commits are noticed of which no notification comes, in seconds, where there are no notifications at all.
POLL_INTERVAL = 0.02
#: The same where there are some: what is left are commits that make no job claimable, and those of users.
NOTIFIED_POLL_INTERVAL = 0.05
#: How soon a FIFO is noticed that somebody has deleted or replaced, in seconds.
RENEWAL_INTERVAL = 1.0


class SqliteChangePoller(ChangePoller):
    """Asks ``PRAGMA data_version``, which reads a counter in shared memory: no table, no lock."""

    def __init__(self, handle: ForkSafeConnection, path: Path, dialect: Dialect) -> None:
        self._handle = handle
        self._path = path
        self._dialect = dialect
        self._version: tuple[sqlite3.Connection, int] | None = None
        self._notifications = NotificationReader(path)
        self._here, self._there = socket.socketpair()
        for end in (self._here, self._there):
            end.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._here, select.POLLIN)
        self._fd: int | None = None
        self._was_notified = False
        self._renew()

    def has_changed(self) -> bool:
        # Before it asks: later commits notify again.
        if self._was_notified or time.monotonic() - self._renewed > RENEWAL_INTERVAL:
            self._renew()
        # Of one connection only: a fork in between may have opened another.
        with self._ready() as connection:
            (number,) = connection.execute("PRAGMA data_version").fetchone()
            version = (connection, number)
        has_changed = version != self._version
        self._version = version
        return has_changed

    def wait(self, interrupted: threading.Event, has_listeners: bool, wants_common: bool) -> None:
        # The event is set before the socket is written to, so one of them is always seen here.
        seconds = POLL_INTERVAL if self._fd is None else NOTIFIED_POLL_INTERVAL
        found = [] if interrupted.is_set() else self._poll.poll(seconds * 1000)
        self._was_notified = any(fd == self._fd for fd, _ in found)
        if len(found) > self._was_notified:
            with contextlib.suppress(BlockingIOError):
                self._here.recv(1024)

    @property
    def was_notified(self) -> bool:
        return self._was_notified

    def _renew(self) -> None:
        self._was_notified = False
        if self._fd is not None:
            self._poll.unregister(self._fd)
        self._fd, self._renewed = self._notifications.renew(), time.monotonic()
        if self._fd is not None:
            # Of a hang-up one is told without asking.
            self._poll.register(self._fd, 0)

    def interrupt(self) -> None:
        # A full buffer interrupts as well, and a closed socket has no reader.
        with contextlib.suppress(OSError):
            self._there.send(b".")

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        sql, constants = statement.on(self._dialect)
        with self._ready() as connection:
            return connection.execute(sql, {**constants, **parameters}).fetchall()

    def close(self) -> None:
        self._notifications.close()
        self._here.close()
        self._there.close()
        with self._handle.lock:
            self._handle.close()

    @contextlib.contextmanager
    def _ready(self) -> Iterator[sqlite3.Connection]:
        with self._handle.lock:
            try:
                yield self._handle.get()
            except (DBAPIError, sqlite3.Error) as error:
                raise explain(error, self._path) from error
