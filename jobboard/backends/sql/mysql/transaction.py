"""Statements of one board inside one transaction on MariaDB and MySQL, in as few round trips as PyMySQL can."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pymysql.constants import CLIENT

from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import StepwiseTransaction

#: Characters of statements that are sent together; a server takes 16 MB by default.
MAX_TEXT = 1_000_000


class MysqlTransaction(StepwiseTransaction):
    """Sends changes together with what is asked after them, or with the commit: each round trip saved is time saved.

    Changes that fail are told by what they are sent with, and the transaction is undone all the same.
    """

    __slots__ = ("_defers", "_size", "_waiting")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._defers = takes_several(self._cursor)
        self._waiting: list[str] = []
        self._size = 0

    def begin_with_next(self, *texts: str) -> None:
        """Begin by these statements, together with the first that is asked."""
        if self._defers:
            self._waiting += texts
        else:
            say(self._cursor, *texts)

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        self._execute(statement, parameters)
        return list(self._cursor.fetchall())

    def rows_of_each(self, statement: Statement, many: Sequence[Mapping[str, Any]]) -> list[Row]:
        """Ask the same with each of these parameters, in one round trip where the connection can; return all rows."""
        sql, constants = statement.on(self._dialect)
        texts = [self._cursor.mogrify(sql, {**constants, **self._bound, **parameters}) for parameters in many]
        rows: list[Row] = []
        for number, text in enumerate(texts):
            if not self._defers:
                say(self._cursor, text)
            elif number:
                self._cursor.nextset()
            else:
                waiting = self.take_waiting()
                self._cursor.execute("; ".join([*waiting, *texts]))
                for _ in waiting:
                    self._cursor.nextset()
            rows += self._cursor.fetchall()
        return rows

    def run(self, statement: Statement, **parameters: Any) -> int:
        self._execute(statement, parameters)
        count: int = self._cursor.rowcount
        self.changed = self.changed or count > 0
        return count

    def do(self, statement: Statement, **parameters: Any) -> None:
        self.run_many(statement, [parameters])

    def run_many(self, statement: Statement, many: Sequence[Mapping[str, Any]]) -> None:
        if not self._defers:
            super().run_many(statement, many)
            return
        self.changed = self.changed or bool(many)
        sql, constants = statement.on(self._dialect)
        fixed = {**constants, **self._bound}
        for text in self._texts(sql, [{**fixed, **parameters} for parameters in many]):
            self._waiting.append(text)
            self._size += len(text)
            if self._size > MAX_TEXT:
                self.finish()

    def finish(self) -> None:
        if self._waiting:
            *before, last = self.take_waiting()
            say(self._cursor, *before, last)

    def take_waiting(self) -> list[str]:
        """Return the changes that are not done yet, to be sent with something else."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        return waiting

    @contextlib.contextmanager
    def part(self) -> Iterator[None]:
        self.finish()
        with super().part():
            try:
                yield
            except BaseException:
                # What was not done yet must not be done after the part is undone.
                self.take_waiting()
                raise
            self.finish()

    def _execute(self, statement: Statement, parameters: Mapping[str, Any]) -> None:
        sql, constants = statement.on(self._dialect)
        values = {**constants, **self._bound, **parameters}
        if self._waiting:
            say(self._cursor, *self.take_waiting(), self._cursor.mogrify(sql, values))
        else:
            self._cursor.execute(sql, values)

    def _texts(self, sql: str, many: list[dict[str, Any]]) -> Iterator[str]:
        """One text for each change, but only one for all rows of an insert that ends with its values."""
        head, values, row = sql.partition(" VALUES ")
        is_plain = sql.startswith("INSERT INTO") and " ON DUPLICATE KEY " not in sql
        if not values or len(many) == 1 or not is_plain:
            yield from (self._cursor.mogrify(sql, parameters) for parameters in many)
            return
        rows: list[str] = []
        size = 0
        for parameters in many:
            rows.append(self._cursor.mogrify(row, parameters))
            size += len(rows[-1])
            if size > MAX_TEXT:
                yield f"{head} VALUES {', '.join(rows)}"
                rows, size = [], 0
        if rows:
            yield f"{head} VALUES {', '.join(rows)}"


def takes_several(cursor: Any) -> bool:
    """Whether the cursor's connection takes several statements in one text; only some of the user's do."""
    return bool(cursor.connection.client_flag & CLIENT.MULTI_STATEMENTS)


def say(cursor: Any, *statements: str) -> None:
    """Run statements, in one round trip where the connection can; the cursor is left at the last one's rows."""
    if takes_several(cursor):
        cursor.execute("; ".join(statements))
        for _ in statements[1:]:
            cursor.nextset()
    else:
        for statement in statements:
            cursor.execute(statement)
