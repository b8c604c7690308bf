"""Statements of one board inside one transaction on SQLite."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any

from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.sqlite.claim_requests import TakenRequest
from jobboard.backends.sql.transaction import Transaction

#: How many rows one statement inserts.
SIZES = (128, 64, 32, 16, 8, 4, 2, 1)


class SqliteTransaction(Transaction):
    """Runs a statement for many rows of values, too."""

    __slots__ = ("taken",)

    def __init__(self, cursor: Any, dialect: Dialect, board: int, now: float) -> None:
        super().__init__(cursor, dialect, board, now)
        #: The request of a waiter, under which this transaction claims.
        self.taken: TakenRequest | None = None

    def insert(self, sql: str, values: tuple[Any, ...]) -> int | None:
        """Insert a row, and return its number; None if there is one that forbids it."""
        self._cursor.execute(sql, values)
        if self._cursor.rowcount != 1:
            return None
        self.changed = True
        number: int = self._cursor.lastrowid
        return number

    def insert_many(self, sql: str, same: Sequence[Any], rows: Sequence[tuple[Any, ...]]) -> int | None:
        """Insert rows, and return the number of the last one; None if there is one that forbids any of them.

        A statement for each row takes three times the time. One for all would be compiled for each number of rows.

        :param sql: has ``%s`` for the rows.
        :param same: the values of its parameters before those.
        """
        row = f"({', '.join('?' * len(rows[0]))})"
        left = iter(rows)
        for size in _sizes_of_parts(len(rows)):
            values = chain.from_iterable(islice(left, size))
            self._cursor.execute(sql % ", ".join([row] * size), [*same, *values])
            if self._cursor.rowcount != size:
                return None
        self.changed = True
        number: int = self._cursor.lastrowid
        return number

    def run_each(self, sql: str, rows: Iterable[tuple[Any, ...]]) -> int:
        """Change something for each row of values, and return how many rows; names would cost as much as the change."""
        self._cursor.executemany(sql, rows)
        count: int = self._cursor.rowcount
        self.changed = self.changed or count > 0
        return count


def _sizes_of_parts(count: int) -> list[int]:
    sizes = []
    for size in SIZES:
        parts, count = divmod(count, size)
        sizes += [size] * parts
    return sizes
