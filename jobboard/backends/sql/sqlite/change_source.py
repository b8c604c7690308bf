"""News of an SQLite file: at once when other processes notify, else by polling."""

from __future__ import annotations

import contextlib
import math
import sqlite3
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jobboard.backends.sql.change_source import ChangeSource
from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.journal_reader import Lines, lines_after
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.sqlite.connection import ForkSafeConnection
from jobboard.backends.sql.sqlite.errors import explain
from jobboard.backends.sql.sqlite.notifications import NotificationReader

#: How soon commits are noticed of which no notification comes, in seconds, where there are no notifications at all.
POLL_INTERVAL = 0.02
#: The same where there are some: what is left are commits that make no job claimable, and those of users.
NOTIFIED_POLL_INTERVAL = 0.05
#: How soon a FIFO is noticed that somebody has deleted or replaced, in seconds.
RENEWAL_INTERVAL = 1.0


class SqliteChangeSource(ChangeSource):
    """Asks ``PRAGMA data_version``, which reads a counter in shared memory: no table, no lock."""

    def __init__(self, handle: ForkSafeConnection, path: Path, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._handle = handle
        self._path = path
        self._version: tuple[sqlite3.Connection, int] | None = None
        self._notifications = NotificationReader(path)
        self._fd: int | None = None
        self._was_notified = False
        self._renewed = -math.inf

    def wait_for_news(self, wants_common: bool) -> bool:
        is_to_ask = self._version is None or self._was_notified
        interval = POLL_INTERVAL if self._fd is None else NOTIFIED_POLL_INTERVAL
        found = self._sleep(0.0 if is_to_ask else interval)
        if found == {self._fd} and not is_to_ask:
            # Those who wait are on their way while the next call asks what has changed.
            self._was_notified = True
            return True
        # Before it asks: later commits notify again.
        if self._was_notified or self._fd in found or time.monotonic() - self._renewed > RENEWAL_INTERVAL:
            self._renew()
        # Of one connection only: a fork in between may have opened another.
        with self._ready() as connection:
            version = (connection, connection.execute("PRAGMA data_version").fetchone()[0])
        has_changed = version != self._version
        self._version = version
        self._has_unread |= has_changed
        return has_changed

    def _renew(self) -> None:
        self._was_notified = False
        if self._fd is not None:
            self._poll.unregister(self._fd)
        self._fd, self._renewed = self._notifications.renew(), time.monotonic()
        if self._fd is not None:
            # A poll reports a hang-up in any case.
            self._poll.register(self._fd, 0)

    def _read(self, after: int) -> Lines:
        return lines_after(self.rows, after)

    def _execute(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        with self._ready() as connection:
            return connection.execute(sql, parameters).fetchall()

    @contextlib.contextmanager
    def _ready(self) -> Iterator[sqlite3.Connection]:
        with self._handle.lock:
            try:
                yield self._handle.get()
            except sqlite3.Error as error:
                raise explain(error, self._path) from error

    def close(self) -> None:
        self._notifications.close()
        super().close()
        with self._handle.lock:
            self._handle.close()
