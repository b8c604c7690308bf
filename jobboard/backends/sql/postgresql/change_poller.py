"""Noticing what other processes commit on PostgreSQL, by LISTEN, and by a look now and then."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psycopg

from jobboard.backends.sql.database import ChangePoller, Lines
from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.event_statements import END_OF_JOURNAL, UNAWAITED_KINDS
from jobboard.backends.sql.journal_reader import JournalReader
from jobboard.backends.sql.postgresql import channels
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement
from jobboard.errors import BoardUnavailable

#: Seconds after which to look without being notified: whoever committed may have ended before it notified anybody.
#: With the heartbeats, an idle conductor makes less than one round trip a second.
LOOK_INTERVAL = 2.0
#: Seconds between two reads of the journal for listeners, since many processes may notify.
READ_INTERVAL = 0.02
#: Seconds after a notification in which the journal isn't read for listeners to rare events: who waits claims first.
READ_DELAY = 0.005


class PostgresqlChangePoller(ChangePoller):
    """A connection that listens, and a pair of sockets that interrupts it.

    :param channel: notified of what somebody may wait for.
    :param event_channel: notified of all else; only listeners to common events want it.
    """

    notices_all = False

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        dialect: Dialect,
        channel: str,
        event_channel: str,
        explain: Callable[[Exception], BoardUnavailable],
    ) -> None:
        self._connection = connection
        self._dialect = dialect
        self._channel = channel
        self._event_channel = event_channel
        self._explain = explain
        #: What the channel was notified of, or a look has found, since it was last asked.
        self._has_changed = True
        #: Whether any channel was notified since the last wait.
        self._was_notified = False
        self._hears_events = False
        #: Whether the journal is read for listeners, which is a look.
        self._reads_events = False
        self._end: list[Row] | None = None
        self._looked_at = self._next_read_at = 0.0
        #: Whether the journal is to be read at ``_next_read_at``.
        self._has_unread = False
        self._journal = JournalReader(self.rows, list)
        connection.add_notify_handler(lambda notify: self._on_notify(notify.channel))
        connection.execute(channels.listen(channel).encode())
        self._here, self._there = socket.socketpair()
        for end in (self._here, self._there):
            end.setblocking(False)

    def has_changed(self) -> bool:
        if not self._reads_events and time.monotonic() - self._looked_at >= LOOK_INTERVAL:
            self._look()
        with self._explained():
            self._hear()
        has_changed, self._has_changed = self._has_changed, False
        return has_changed

    def _look(self) -> None:
        end = self.rows(END_OF_JOURNAL)
        self._has_changed = self._has_changed or end != self._end
        self._end, self._looked_at = end, time.monotonic()

    @property
    def notices_own(self) -> bool:  # type: ignore[override]
        """What no channel is notified of, only listeners to common events want to know."""
        return not self._hears_events

    def wait(self, interrupted: threading.Event, has_listeners: bool, wants_common: bool) -> None:
        self._reads_events = has_listeners
        if wants_common != self._hears_events:
            self._hear_events(wants_common)
            return
        poll = select.poll()
        for end in (self._connection.pgconn.socket, self._here.fileno()):
            poll.register(end, select.POLLIN)
        # The event is set before the socket is written to, so one of them is always seen here.
        if not interrupted.is_set() and not self._was_notified and not self._has_changed:
            next_at = self._next_read_at if self._has_unread else self._looked_at + LOOK_INTERVAL
            poll.poll(max(0.0, next_at - time.monotonic()) * 1000)
        self._was_notified = False
        with contextlib.suppress(BlockingIOError):
            self._here.recv(1024)

    def _hear_events(self, wanted: bool) -> None:
        """Have the event channel heard; the journal is to be read once more, for what was committed before that."""
        with self._explained():
            self._connection.execute((channels.listen if wanted else channels.unlisten)(self._event_channel).encode())
        self._hears_events = wanted

    def interrupt(self) -> None:
        # A full buffer interrupts as well, and a closed socket has no reader.
        with contextlib.suppress(OSError):
            self._there.send(b".")

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        sql, constants = statement.on(self._dialect)
        with self._explained():
            return self._execute(sql, {**constants, **parameters}).fetchall()

    def _execute(self, sql: str, parameters: Mapping[str, Any]) -> psycopg.Cursor[Any]:
        return self._connection.execute(sql.encode(), parameters)

    def events(self, after: int, wants_common: Callable[[], bool]) -> Lines:
        now = time.monotonic()
        self._has_unread = now < self._next_read_at
        if self._has_unread:
            return Lines([], after, True)
        if wants_common():
            lines, is_any_awaited = self._journal.read(after), False
        else:
            lines, is_any_awaited = self._journal.skim(after, lambda: not wants_common())
        self._looked_at = now
        # A full batch is followed by another one at once.
        self._next_read_at = now + READ_INTERVAL if lines.is_end else 0.0
        self._has_changed = (
            self._has_changed or is_any_awaited or any(row[1] not in UNAWAITED_KINDS for row in lines.rows)
        )
        return lines

    def close(self) -> None:
        self._connection.close()
        self._here.close()
        self._there.close()

    def _hear(self) -> None:
        self._connection.pgconn.consume_input()
        while (notify := self._connection.pgconn.notifies()) is not None:
            self._on_notify(notify.relname.decode())

    def _on_notify(self, channel: str) -> None:
        self._was_notified = True
        if channel == self._channel:
            self._has_changed = True
            if not self._has_unread and not self._hears_events:
                self._next_read_at = max(self._next_read_at, time.monotonic() + READ_DELAY)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._explain(error) from error
