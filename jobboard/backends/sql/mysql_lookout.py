"""Noticing what other processes commit on MariaDB and MySQL, by looking at the end of the journal."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pymysql

from jobboard.backends.sql.database import Lookout
from jobboard.backends.sql.journal_reader import JournalReader
from jobboard.backends.sql.news import END_OF_JOURNAL
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement, Tongue, literal_list
from jobboard.errors import BoardUnavailable

#: Where something happens, something more happens soon: looks are rarer the longer nothing does, in seconds.
_SOONEST, _RARER, _RAREST = 0.005, 1.1, 0.3


class MysqlLookout(Lookout):
    """Looks at the last numbers of the journal, not only at the last: the smaller ones may be committed later."""

    def __init__(self, connection: Any, tongue: Tongue, explain: Callable[[Exception], BoardUnavailable]) -> None:
        self._connection = connection
        self._tongue = tongue
        self._explain = explain
        self._seen: list[Row] | None = None
        self._pause = _SOONEST
        self._journal = JournalReader(self.rows, literal_list)

    def has_changed(self) -> bool:
        found = self.rows(END_OF_JOURNAL)
        has_changed = found != self._seen
        self._seen = found
        self._pause = _SOONEST if has_changed else min(self._pause * _RARER, _RAREST)
        return has_changed

    def look_soon(self) -> None:
        self._pause = _SOONEST

    def rest(self, nudged: threading.Event, is_listened: bool) -> None:
        nudged.wait(self._pause)

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        sql, constants = statement.on(self._tongue)
        with self._explained(), self._connection.cursor() as cursor:
            cursor.execute(sql, {**constants, **parameters})
            return list(cursor.fetchall())

    def events(self, after: int) -> list[Row]:
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
