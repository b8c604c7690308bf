"""News of a database without channels, by looks at the end of the journal.

Where several servers give numbers, a line may get one that is far before the end. So those who wait for jobs look at
the board itself, too, each ``LOOK_INTERVAL``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from jobboard.backends.sql.change_source import ServerChangeSource
from jobboard.backends.sql.journal_reader import Lines
from jobboard.backends.sql.journal_statements import END_OF_JOURNAL
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.user_connection import UserConnection

#: Seconds between two looks at the journal: they are rarer the longer nothing happens.
MIN_INTERVAL, INTERVAL_GROWTH, MAX_INTERVAL = 0.02, 1.2, 0.5
#: Seconds after which those who wait look at the board, whatever the journal says.
LOOK_INTERVAL = 2.0


class PollingChangeSource(ServerChangeSource):
    """Reads the last numbers of the journal, not only the last one: smaller ones may be committed later."""

    def __init__(self, driver: UserConnection, connection: Any, execute: Callable[..., list[Row]]) -> None:
        """
        :param execute: executes a statement on the connection, with the settings of the mode.
        """
        super().__init__(driver, connection)
        self._execute_on = execute
        self._end: list[Row] | None = None
        self._pause = 0.0
        self._look_at = 0.0

    def _execute(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        with self._explained():
            return self._execute_on(self._connection, sql, parameters)

    def wait_for_news(self, wants_common: bool) -> bool:
        self._sleep(self._pause)
        end, now = self.rows(END_OF_JOURNAL), time.monotonic()
        is_other = end != self._end
        self._end = end
        self._has_unread |= is_other
        self._pause = MIN_INTERVAL if is_other else min(self._pause * INTERVAL_GROWTH, MAX_INTERVAL)
        has_changed = is_other or now >= self._look_at
        if has_changed:
            self._look_at = now + LOOK_INTERVAL
        return has_changed

    def lines(self, after: int, wants_common: Callable[[], bool]) -> Lines:
        if wants_common() or not self._has_unread:
            return super().lines(after, wants_common)
        self._has_unread, self._pause = False, MIN_INTERVAL
        return self._journal.skim(after, lambda: not wants_common())[0]

    def _read(self, after: int) -> Lines:
        # What is read has just happened, or somebody has begun to listen.
        self._pause = MIN_INTERVAL
        return super()._read(after)
