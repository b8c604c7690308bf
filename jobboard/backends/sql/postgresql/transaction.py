"""Statements of one board inside one transaction on PostgreSQL."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import psycopg
from psycopg.generators import send
from psycopg.pq import PipelineStatus

from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import Transaction


class _Trip(psycopg.Pipeline):
    """A pipeline whose Sync is the last that is sent.

    psycopg may send a Flush after it, and the server's time limit of an idle transaction, which begins with the Sync,
    ends with whatever comes next: a process that is frozen then would keep its locks for good.
    """

    #: Whether the block raised an error. What the end raises beside it, most often that of the same lost connection,
    #: psycopg would tell in its log.
    has_failed = False

    def _exit_gen(self) -> Iterator[Any]:  # type: ignore[override]
        try:
            try:
                self._enqueue_sync()
                yield from self._communicate_gen()
            finally:
                yield from send(self.pgconn)
                yield from self._fetch_gen(flush=False)
        except psycopg.Error:
            if not self.has_failed:
                raise


@contextlib.contextmanager
def in_one_trip(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Send the statements of a block together, where libpq can (14 and later)."""
    if not psycopg.Pipeline.is_supported() or connection.pgconn.pipeline_status != PipelineStatus.OFF:
        yield
        return
    with connection.pipeline() as pipeline:
        pipeline.__class__ = _Trip
        assert isinstance(pipeline, _Trip)
        try:
            yield
        except BaseException:
            pipeline.has_failed = True
            raise


class PostgresqlTransaction(Transaction):
    """Asks the same about many in one round trip, where libpq can."""

    __slots__ = ()

    def together(self) -> AbstractContextManager[object]:
        return in_one_trip(self._cursor.connection)

    def run_many(self, statement: Statement, many: Sequence[Mapping[str, Any]]) -> None:
        with self.together() if len(many) > 1 else contextlib.nullcontext():
            super().run_many(statement, many)

    def rows_of_each(self, statements: Sequence[Statement], many: Sequence[Mapping[str, Any]]) -> list[Row]:
        if len(statements) > 1 or len(many) < 2:
            return super().rows_of_each(statements, many)
        sql, constants = statements[0].on(self._dialect)
        fixed = {**constants, **self._bound}
        with self.together():
            self._cursor.executemany(sql, [{**fixed, **parameters} for parameters in many], returning=True)
        rows: list[Row] = []
        for _ in many:
            rows += self._cursor.fetchall()
            self._cursor.nextset()
        return rows
