"""Noticing what other processes commit on MariaDB and MySQL, by polling the end of the journal."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pymysql

from jobboard.backends.sql.database import ChangePoller, Lines
from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.event_statements import END_OF_JOURNAL
from jobboard.backends.sql.journal_reader import JournalReader
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement, literal_list
from jobboard.errors import BoardUnavailable

#: Seconds between two polls: they are rarer the longer nothing happens.
MIN_INTERVAL, INTERVAL_GROWTH, MAX_INTERVAL = 0.005, 1.1, 0.3


class MysqlChangePoller(ChangePoller):
    """Reads the last numbers of the journal, not only the last one: smaller ones may be committed later."""

    def __init__(self, connection: Any, dialect: Dialect, explain: Callable[[Exception], BoardUnavailable]) -> None:
        self._connection = connection
        self._dialect = dialect
        self._explain = explain
        self._seen: list[Row] | None = None
        self._pause = MIN_INTERVAL
        self._journal = JournalReader(self.rows, literal_list)

    def has_changed(self) -> bool:
        found = self.rows(END_OF_JOURNAL)
        has_changed = found != self._seen
        self._seen = found
        self._pause = MIN_INTERVAL if has_changed else min(self._pause * INTERVAL_GROWTH, MAX_INTERVAL)
        return has_changed

    def poll_soon(self) -> None:
        self._pause = MIN_INTERVAL

    def wait(self, interrupted: threading.Event, has_listeners: bool, wants_common: bool) -> None:
        interrupted.wait(self._pause)

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        sql, constants = statement.on(self._dialect)
        with self._explained(), self._connection.cursor() as cursor:
            cursor.execute(sql, {**constants, **parameters})
            return list(cursor.fetchall())

    def events(self, after: int, wants_common: Callable[[], bool]) -> Lines:
        return self._journal.read(after)

    def close(self) -> None:
        with contextlib.suppress(pymysql.Error, OSError):
            self._connection.close()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except pymysql.Error as error:
            raise self._explain(error) from error
