"""News of PostgreSQL, by LISTEN, and by a look now and then.

The server does not tell whether somebody listens on a channel, and a commit that notifies takes its turn among all
others that do. So a listener shares an advisory lock from before that until its connection ends. A sender gets the lock
alone, for the length of its statement, only if nobody listens.
"""

from __future__ import annotations

import hashlib
import select
import time
from collections.abc import Callable
from typing import Any

import psycopg

from jobboard.backends.sql.change_source import ServerChangeSource
from jobboard.backends.sql.journal_reader import Lines
from jobboard.backends.sql.journal_statements import END_OF_JOURNAL, UNAWAITED_KINDS
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.user_connection import UserConnection

#: Seconds after which to look without being notified: a process may have ended between its commit and its notification.
#: With the heartbeats, an idle conductor makes less than one round trip a second.
LOOK_INTERVAL = 2.0
#: Seconds between two reads of the journal for listeners, since many processes may notify.
READ_INTERVAL = 0.02
#: Seconds after a notification in which the journal isn't read for listeners to rare events: waiters claim first.
READ_DELAY = 0.005


class PostgresqlChangeSource(ServerChangeSource):
    """A connection that listens.

    :param channel: notified of what somebody may wait for.
    :param event_channel: notified of all else; only listeners to common events want it.
    """

    hears_own = True

    def __init__(
        self, driver: UserConnection, connection: psycopg.Connection[Any], channel: str, event_channel: str
    ) -> None:
        connection.execute(listen(channel).encode())
        super().__init__(driver, connection)
        self._channel = channel
        self._event_channel = event_channel
        #: What the channel was notified of, or a look has found, since it was last asked.
        self._has_changed = True
        #: Whether any channel was notified since the last wait.
        self._was_notified = False
        self._hears_events = False
        #: Whether lines were asked for since the last wait, which is a look.
        self._reads_lines = False
        self._end: list[Row] | None = None
        self._looked_at = self._next_read_at = 0.0
        #: Whether the journal is to be read at ``_next_read_at``.
        self._is_read_later = False
        connection.add_notify_handler(lambda notify: self._on_notify(notify.channel))
        self._poll.register(connection.pgconn.socket, select.POLLIN)

    def wait_for_news(self, wants_common: bool) -> bool:
        if wants_common != self._hears_events:
            self._hear_events(wants_common)
        else:
            is_new = self._was_notified or self._has_changed
            next_at = self._next_read_at if self._is_read_later else self._looked_at + LOOK_INTERVAL
            self._sleep(0.0 if is_new else next_at - time.monotonic())
            self._was_notified = False
        reads_lines, self._reads_lines = self._reads_lines, False
        if not reads_lines and time.monotonic() - self._looked_at >= LOOK_INTERVAL:
            self._look()
        with self._explained():
            self._hear()
        has_changed, self._has_changed = self._has_changed, False
        return has_changed

    def _look(self) -> None:
        end = self.rows(END_OF_JOURNAL)
        self._has_changed = self._has_changed or end != self._end
        self._end, self._looked_at = end, time.monotonic()

    def _hear_events(self, wanted: bool) -> None:
        """Have the event channel heard; the journal is to be read once more, for what was committed before that."""
        with self._explained():
            self._connection.execute((listen if wanted else unlisten)(self._event_channel).encode())
        self._hears_events = wanted

    def lines(self, after: int, wants_common: Callable[[], bool]) -> Lines:
        self._reads_lines, now = True, time.monotonic()
        self._is_read_later = now < self._next_read_at
        if self._is_read_later:
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

    def _hear(self) -> None:
        self._connection.pgconn.consume_input()
        while (notify := self._connection.pgconn.notifies()) is not None:
            self._on_notify(notify.relname.decode())

    def _on_notify(self, channel: str) -> None:
        self._was_notified = True
        if channel == self._channel:
            self._has_changed = True
            if not self._is_read_later and not self._hears_events:
                self._next_read_at = max(self._next_read_at, time.monotonic() + READ_DELAY)


def listen(channel: str) -> str:
    return f"SELECT pg_advisory_lock_shared({_lock_of(channel)}); LISTEN {channel}"


def unlisten(channel: str) -> str:
    return f"UNLISTEN {channel}; SELECT pg_advisory_unlock_shared({_lock_of(channel)})"


def notify(channel: str) -> str:
    """Notify the listeners, and return a row; return none if there are none."""
    return f"SELECT pg_notify('{channel}', '') IS NOT NULL WHERE NOT pg_try_advisory_xact_lock({_lock_of(channel)})"


def _lock_of(channel: str) -> int:
    return int.from_bytes(hashlib.sha256(channel.encode()).digest()[:8], "big", signed=True)
