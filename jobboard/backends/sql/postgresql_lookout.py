"""Hearing what other processes commit on PostgreSQL, by LISTEN."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from jobboard.backends.sql.database import Lookout
from jobboard.backends.sql.journal_reader import JournalReader
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement, Tongue
from jobboard.errors import BoardUnavailable

#: Claims and ends are not announced, since an announcement makes commits queue; who listens to events looks for them.
_LOOK_FOR_EVENTS_EVERY = 0.05
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
        self._journal = JournalReader(self.rows, list)
        connection.add_notify_handler(self._on_notify)
        connection.execute(f"LISTEN {channel}")
        self._here, self._there = socket.socketpair()
        for end in (self._here, self._there):
            end.setblocking(False)

    def has_changed(self) -> bool:
        with self._explained():
            if time.monotonic() - self._asked > _ASK_EVERY:
                self._asked = time.monotonic()
                self._connection.execute("SELECT 1")
            self._hear()
        notified, self._notified = self._notified, False
        return notified

    def rest(self, nudged: threading.Event, is_listened: bool) -> None:
        poll = select.poll()
        for end in (self._connection.pgconn.socket, self._here.fileno()):
            poll.register(end, select.POLLIN)
        # Whoever nudges sets the event first, so either it is seen here, or the socket says it.
        if not nudged.is_set():
            poll.poll((_LOOK_FOR_EVENTS_EVERY if is_listened else _ASK_EVERY) * 1000)
        with contextlib.suppress(BlockingIOError):
            self._here.recv(1024)

    def interrupt(self) -> None:
        # A full buffer interrupts as well, and a closed socket has nobody to interrupt.
        with contextlib.suppress(OSError):
            self._there.send(b".")

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        sql, constants = statement.on(self._tongue)
        with self._explained():
            return self._connection.execute(sql.encode(), {**constants, **parameters}).fetchall()

    def events(self, after: int) -> list[Row]:
        return self._journal.read(after)

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
