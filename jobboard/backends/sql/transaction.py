"""Statements of one board inside one transaction."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy.engine import Dialect

from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement


class Transaction:
    """Runs statements with ``:board`` and ``:now`` bound in all of them.

    They run on the DB-API's own cursor: SQLAlchemy's layer above it costs several times what a statement does.
    """

    __slots__ = ("_bound", "_cursor", "_dialect", "changed", "now")

    def __init__(self, cursor: Any, dialect: Dialect, board: int, now: float) -> None:
        self._cursor = cursor
        self._dialect = dialect
        self._bound = {"board": board, "now": now}
        self.now = now
        #: Whether anything was written that somebody may wait for.
        self.changed = False

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        sql, constants = statement.on(self._dialect)
        self._cursor.execute(sql, {**constants, **self._bound, **parameters})
        rows: list[Row] = self._cursor.fetchall()
        return rows

    def row(self, statement: Statement, **parameters: Any) -> Row | None:
        rows = self.rows(statement, **parameters)
        return rows[0] if rows else None

    def run(self, statement: Statement, **parameters: Any) -> int:
        """Change something, and return how many rows."""
        sql, constants = statement.on(self._dialect)
        self._cursor.execute(sql, {**constants, **self._bound, **parameters})
        count: int = self._cursor.rowcount
        self.changed = self.changed or count > 0
        return count

    def run_many(self, statement: Statement, many: Sequence[Mapping[str, Any]]) -> None:
        if not many:
            return
        self.changed = True
        sql, constants = statement.on(self._dialect)
        fixed = {**constants, **self._bound}
        self._cursor.executemany(sql, [{**fixed, **parameters} for parameters in many])

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        """A part that is undone by an error, while the rest of the transaction stands."""
        self._cursor.execute("SAVEPOINT jobboard_part")
        try:
            yield
        except BaseException:
            self._cursor.execute("ROLLBACK TO SAVEPOINT jobboard_part")
            raise
        self._cursor.execute("RELEASE SAVEPOINT jobboard_part")


def as_list(values: Iterable[str | int]) -> str:
    """Return the parameter of a statement that asks :func:`~jobboard.backends.sql.statement.in_list`."""
    return json.dumps(list(values))
