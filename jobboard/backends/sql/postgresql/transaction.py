"""Statements of one board inside one transaction on PostgreSQL."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import psycopg

from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import Transaction


def in_one_trip(connection: psycopg.Connection[Any]) -> AbstractContextManager[object]:
    """Send the statements of a block together, where libpq can (14 and later)."""
    return connection.pipeline() if psycopg.Pipeline.is_supported() else contextlib.nullcontext()


class PostgresqlTransaction(Transaction):
    """Asks the same about many in one round trip, where libpq can."""

    __slots__ = ()

    def together(self) -> AbstractContextManager[object]:
        return in_one_trip(self._cursor.connection)

    def rows_of_each(self, statements: Sequence[Statement], many: Sequence[Mapping[str, Any]]) -> list[Row]:
        if len(statements) > 1 or len(many) < 2:
            return super().rows_of_each(statements, many)
        sql, constants = statements[0].on(self._dialect)
        fixed = {**constants, **self._bound}
        self._cursor.executemany(sql, [{**fixed, **parameters} for parameters in many], returning=True)
        rows: list[Row] = []
        for _ in many:
            rows += self._cursor.fetchall()
            self._cursor.nextset()
        return rows
