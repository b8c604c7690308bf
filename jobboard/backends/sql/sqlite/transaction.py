"""Statements of one board inside one transaction on SQLite."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jobboard.backends.sql.transaction import Transaction


class SqliteTransaction(Transaction):
    """Runs a statement for many rows of values, too."""

    __slots__ = ()

    @property
    def board(self) -> int:
        return int(self._bound["board"])

    def run_each(self, sql: str, rows: Iterable[tuple[Any, ...]]) -> int:
        """Change something for each row of values, and return how many rows; names would cost as much as the change."""
        self._cursor.executemany(sql, rows)
        count: int = self._cursor.rowcount
        self.changed = self.changed or count > 0
        return count
