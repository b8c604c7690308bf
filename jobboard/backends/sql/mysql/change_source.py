"""News of MariaDB and MySQL, by polling the end of the journal."""

from __future__ import annotations

from typing import Any

from jobboard.backends.sql.change_source import ServerChangeSource
from jobboard.backends.sql.journal_reader import Lines
from jobboard.backends.sql.journal_statements import END_OF_JOURNAL
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.user_connection import UserConnection

#: Seconds between two polls: they are rarer the longer nothing happens.
MIN_INTERVAL, INTERVAL_GROWTH, MAX_INTERVAL = 0.005, 1.1, 0.3


class MysqlChangeSource(ServerChangeSource):
    """Reads the last numbers of the journal, not only the last one: smaller ones may be committed later."""

    def __init__(self, driver: UserConnection, connection: Any) -> None:
        super().__init__(driver, connection)
        self._end: list[Row] | None = None
        self._pause = 0.0

    def wait_for_news(self, wants_common: bool) -> bool:
        self._sleep(self._pause)
        end = self.rows(END_OF_JOURNAL)
        has_changed = end != self._end
        self._end = end
        self._has_unread |= has_changed
        self._pause = MIN_INTERVAL if has_changed else min(self._pause * INTERVAL_GROWTH, MAX_INTERVAL)
        return has_changed

    def _read(self, after: int) -> Lines:
        # What is read has just happened, or somebody has begun to listen.
        self._pause = MIN_INTERVAL
        return super()._read(after)
