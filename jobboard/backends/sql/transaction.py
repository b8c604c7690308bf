"""Statements of one board inside one transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.floors import ALWAYS
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Returning, Statement


class Undone(Exception):
    """Undoes a transaction, and says nothing against its connection."""


class LongPath(Undone):
    """Undoes what a fast path has done in a transaction, since it met something unusual."""


class BoardStatus(NamedTuple):
    """Whether claims or delays are over, whether any name is paused or limited, whether any job waits for its lane, and
    whether edges of a parent that has ended do not say so."""

    is_any_job_due: bool
    is_any_paused: bool
    is_any_blocked: bool
    is_any_mark_due: bool

    @property
    def is_any_due(self) -> bool:
        """Whether there is anything to do before the board is as it should be."""
        return self.is_any_job_due or self.is_any_mark_due


class Transaction:
    """Runs statements with ``:board``, ``:now`` and ``:due_floor`` bound in all of them.

    They run on the DB-API's own cursor: SQLAlchemy's layer above it costs several times what a statement does.
    """

    __slots__ = (
        "_bound", "_cursor", "_dialect", "changed", "is_below_floors", "marked", "moves_others", "notifies", "now",
        "status",
    )  # fmt: skip

    def __init__(
        self,
        cursor: Any,
        dialect: Dialect,
        board: int,
        now: float,
        status: BoardStatus | None = None,
        due_floor: float = ALWAYS,
    ) -> None:
        self._cursor = cursor
        self._dialect = dialect
        self._bound = {"board": board, "now": now, "due_floor": due_floor}
        self.now = now
        #: As of its beginning; None where reading it takes a statement of its own.
        self.status = status
        #: Whether anything was written.
        self.changed = False
        #: Whether this transaction may also expire and promote jobs that the request does not name.
        self.moves_others = True
        #: Whether another process may wait for what was written.
        self.notifies = False
        #: Whether it has written what clients may not see from their floors on (``floors``).
        self.is_below_floors = False
        #: The parents of which it has written how they have ended.
        self.marked: list[str] = []

    @property
    def board(self) -> int:
        return int(self._bound["board"])

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        sql, constants = statement.on(self._dialect)
        self._cursor.execute(sql, {**constants, **self._bound, **parameters})
        rows: list[Row] = self._cursor.fetchall()
        return rows

    def row(self, statement: Statement, **parameters: Any) -> Row | None:
        rows = self.rows(statement, **parameters)
        return rows[0] if rows else None

    def rows_of_each(self, statements: Sequence[Statement], many: Sequence[Mapping[str, Any]]) -> list[Row]:
        """Ask the same with each of these parameters; return all rows, in order."""
        return [row for parameters in many for each in statements for row in self.rows(each, **parameters)]

    def find_or_add(self, find: Statement, add: Statement, **parameters: Any) -> Any:
        """Return the first column of a row, which is added if there is none."""
        row = self.row(find, **parameters)
        if row is None:
            self.run(add, **parameters)
            row = self.row(find, **parameters)
        assert row is not None
        return row[0]

    def run(self, statement: Statement, **parameters: Any) -> int:
        """Change something, and return how many rows."""
        sql, constants = statement.on(self._dialect)
        self._cursor.execute(sql, {**constants, **self._bound, **parameters})
        count: int = self._cursor.rowcount
        self.changed = self.changed or count > 0
        return count

    def do(self, statement: Statement, **parameters: Any) -> None:
        """Change something that is there, as the caller knows; until what is asked next, it may not be done yet."""
        self.run(statement, **parameters)

    def run_many(self, statement: Statement, many: Sequence[Mapping[str, Any]]) -> None:
        """Change many things; until what is asked next, it may not be done yet."""
        if not many:
            return
        self.changed = True
        sql, constants = statement.on(self._dialect)
        fixed = {**constants, **self._bound}
        if len(many) == 1:
            # Drivers make more of an executemany, however many there are.
            self._cursor.execute(sql, {**fixed, **many[0]})
        else:
            self._cursor.executemany(sql, [{**fixed, **parameters} for parameters in many])

    def together(self) -> AbstractContextManager[object]:
        """Let the changes of a block, which asks nothing, be done by its end, in one round trip where that can be."""
        return contextlib.nullcontext()

    def finish(self) -> None:
        """Do what is not done yet."""

    def change(self, change: Returning, **parameters: Any) -> list[Row]:
        """Change something, and return the rows as they are now."""
        return self.rows(change.at_once, **parameters)

    def list_of(self, values: Iterable[str | int]) -> Any:
        """Return the parameter of a statement that asks :func:`~jobboard.backends.sql.statement.in_list`."""
        return self._dialect.as_list(values)

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


class StepwiseTransaction(Transaction):
    """For databases whose UPDATE returns no rows, and drivers whose rows are no list."""

    __slots__ = ()

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        return list(super().rows(statement, **parameters))

    def change(self, change: Returning, **parameters: Any) -> list[Row]:
        if change.find is None:
            ids = parameters["ids"]
        else:
            found = self.rows(change.find, **parameters)
            if not found:
                return []
            ids = self.list_of(row[0] for row in found)
        self.do(change.change, **{**parameters, "ids": ids})
        return self.rows(change.read, ids=ids)
