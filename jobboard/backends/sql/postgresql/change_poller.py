"""Noticing what other processes commit on PostgreSQL, by LISTEN."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psycopg

from jobboard.backends.sql.database import ChangePoller
from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.journal_reader import JournalReader
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement
from jobboard.errors import BoardUnavailable

#: Claims and ends notify nobody, since NOTIFY makes commits queue; listeners to events poll for them. Seconds between
#: two polls: they are rarer the longer nothing happens, and at most a quarter of that time apart.
MIN_INTERVAL, INTERVAL_GROWTH, MAX_INTERVAL = 0.05, 1.25, 1.5
#: A silently dead connection is detected within so many seconds and the reply timeout.
KEEPALIVE_INTERVAL = 5.0


class PostgresqlChangePoller(ChangePoller):
    """A connection that listens, and a pair of sockets that interrupts it."""

    notices_all = False

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        dialect: Dialect,
        channel: str,
        explain: Callable[[Exception], BoardUnavailable],
    ) -> None:
        self._connection = connection
        self._dialect = dialect
        self._explain = explain
        self._notified = True
        self._asked = time.monotonic()
        self._pause = MIN_INTERVAL
        self._journal = JournalReader(self.rows, list)
        connection.add_notify_handler(self._on_notify)
        connection.execute(f"LISTEN {channel}")
        self._here, self._there = socket.socketpair()
        for end in (self._here, self._there):
            end.setblocking(False)

    def has_changed(self) -> bool:
        with self._explained():
            if time.monotonic() - self._asked > KEEPALIVE_INTERVAL:
                self._execute("SELECT 1", {})
            self._hear()
        notified, self._notified = self._notified, False
        return notified

    def wait(self, interrupted: threading.Event, has_listeners: bool) -> None:
        poll = select.poll()
        for end in (self._connection.pgconn.socket, self._here.fileno()):
            poll.register(end, select.POLLIN)
        # The event is set before the socket is written to, so one of them is always seen here.
        if not interrupted.is_set() and not poll.poll((self._pause if has_listeners else KEEPALIVE_INTERVAL) * 1000):
            self._pause = min(self._pause * INTERVAL_GROWTH, MAX_INTERVAL)
        with contextlib.suppress(BlockingIOError):
            self._here.recv(1024)

    def interrupt(self) -> None:
        # A full buffer interrupts as well, and a closed socket has no reader.
        with contextlib.suppress(OSError):
            self._there.send(b".")

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        sql, constants = statement.on(self._dialect)
        with self._explained():
            return self._execute(sql, {**constants, **parameters}).fetchall()

    def _execute(self, sql: str, parameters: Mapping[str, Any]) -> psycopg.Cursor[Any]:
        self._asked = time.monotonic()
        return self._connection.execute(sql.encode(), parameters)

    def events(self, after: int) -> list[Row]:
        rows = self._journal.read(after)
        if rows:
            self.poll_soon()
        return rows

    def poll_soon(self) -> None:
        self._pause = MIN_INTERVAL

    def close(self) -> None:
        self._connection.close()
        self._here.close()
        self._there.close()

    def _hear(self) -> None:
        self._connection.pgconn.consume_input()
        while self._connection.pgconn.notifies() is not None:
            self._notified = True

    def _on_notify(self, _notify: object) -> None:
        self._notified = True

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._explain(error) from error
