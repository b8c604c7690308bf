"""Hearing what other processes commit on PostgreSQL, by LISTEN."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psycopg

from jobboard.backends.sql.database import Lookout
from jobboard.backends.sql.journal_reader import JournalReader
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement, Tongue
from jobboard.errors import BoardUnavailable

#: Claims and ends are not announced, since an announcement makes commits queue; who listens to events looks for them.
#: The longer nothing has happened, the rarer: each pause, in seconds, is at most a quarter of that.
_SOONEST, _RARER, _RAREST = 0.05, 1.25, 1.5
#: A line that is silently dead is found out within so many seconds, and the reply's timeout.
_ASK_EVERY = 5.0


class PostgresqlLookout(Lookout):
    """A connection that listens, and a pair of sockets to interrupt it by."""

    notices_all = False

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        tongue: Tongue,
        channel: str,
        explain: Callable[[Exception], BoardUnavailable],
    ) -> None:
        self._connection = connection
        self._tongue = tongue
        self._explain = explain
        self._notified = True
        self._asked = time.monotonic()
        self._pause = _SOONEST
        self._journal = JournalReader(self.rows, list)
        connection.add_notify_handler(self._on_notify)
        connection.execute(f"LISTEN {channel}")
        self._here, self._there = socket.socketpair()
        for end in (self._here, self._there):
            end.setblocking(False)

    def has_changed(self) -> bool:
        with self._explained():
            if time.monotonic() - self._asked > _ASK_EVERY:
                self._execute("SELECT 1", {})
            self._hear()
        notified, self._notified = self._notified, False
        return notified

    def rest(self, nudged: threading.Event, is_listened: bool) -> None:
        poll = select.poll()
        for end in (self._connection.pgconn.socket, self._here.fileno()):
            poll.register(end, select.POLLIN)
        # Whoever nudges sets the event first, so either it is seen here, or the socket says it.
        if not nudged.is_set() and not poll.poll((self._pause if is_listened else _ASK_EVERY) * 1000):
            self._pause = min(self._pause * _RARER, _RAREST)
        with contextlib.suppress(BlockingIOError):
            self._here.recv(1024)

    def interrupt(self) -> None:
        # A full buffer interrupts as well, and a closed socket has nobody to interrupt.
        with contextlib.suppress(OSError):
            self._there.send(b".")

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        sql, constants = statement.on(self._tongue)
        with self._explained():
            return self._execute(sql, {**constants, **parameters}).fetchall()

    def _execute(self, sql: str, parameters: Mapping[str, Any]) -> psycopg.Cursor[Any]:
        self._asked = time.monotonic()
        return self._connection.execute(sql.encode(), parameters)

    def events(self, after: int) -> list[Row]:
        rows = self._journal.read(after)
        if rows:
            self.look_soon()
        return rows

    def look_soon(self) -> None:
        self._pause = _SOONEST

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
