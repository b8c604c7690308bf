"""Statements of one board inside one transaction on MariaDB and MySQL, in as few round trips as PyMySQL can."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jobboard.backends.sql.mysql.replies import Script, answers, say, size_of
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import StepwiseTransaction

#: Bytes of statements that are sent together: a server refuses more than ``max_allowed_packet``, of which 1 MiB is the
#: smallest in use. What is larger is sent alone.
MAX_TEXT = 1_000_000


class SqlText(str):
    """A part of a statement, which is not a value."""

    __slots__ = ()


class MysqlTransaction(StepwiseTransaction):
    """Sends changes together with what is asked after them, or with the commit: each round trip saved is time saved.

    Changes that fail are told by what they are sent with, and the transaction is undone all the same.
    """

    __slots__ = ("_script", "_size", "_waiting", "answers")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._waiting: list[str] = []
        self._size = 0
        self._script: tuple[Script, dict[str, str]] | None = None
        #: Once committed: the rows of each question that was sent with the commit.
        self.answers: list[Sequence[Row]] = []

    def begin_with_next(self, *statements: Statement, **parameters: Any) -> None:
        """Begin by these statements, together with the first that is asked, whose rows come after theirs."""
        given = {**self._bound, **parameters}
        self._waiting += [self.write(statement.on(self._dialect)[0], given) for statement in statements]

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        return self.rows_of_each([statement], [parameters])

    def rows_of_each(self, statements: Sequence[Statement], many: Sequence[Mapping[str, Any]]) -> list[Row]:
        """Ask the same with each of these parameters, in one round trip where the connection can; return all rows."""
        return self.rows_of_all([(statement, parameters) for parameters in many for statement in statements])

    def rows_of_all(self, asked: Sequence[tuple[Statement, Mapping[str, Any]]]) -> list[Row]:
        """Ask all of this, each with its parameters, in one round trip where the connection can; return all rows."""
        texts = []
        for statement, parameters in asked:
            sql, constants = statement.on(self._dialect)
            texts.append(self.write(sql, {**constants, **self._bound, **parameters}))
        self._make_room(*texts)
        return [row for rows in answers(self._cursor, *self.take_waiting(), *texts) for row in rows]

    def run(self, statement: Statement, **parameters: Any) -> int:
        sql, constants = statement.on(self._dialect)
        text = self.write(sql, {**constants, **self._bound, **parameters})
        self._make_room(text)
        say(self._cursor, *self.take_waiting(), text)
        count: int = self._cursor.rowcount
        self.changed = self.changed or count > 0
        return count

    def do(self, statement: Statement, **parameters: Any) -> None:
        self.run_many(statement, [parameters])

    def run_many(self, statement: Statement, many: Sequence[Mapping[str, Any]]) -> None:
        self.changed = self.changed or bool(many)
        sql, constants = statement.on(self._dialect)
        fixed = {**constants, **self._bound}
        for text in self._texts(sql, [{**fixed, **parameters} for parameters in many]):
            self.do_with_next(text)

    def do_with_next(self, text: str) -> None:
        """Do what a text says, together with what is asked next, or with the commit."""
        size = self._make_room(text)
        self._waiting.append(text)
        self._size += size
        if size > MAX_TEXT:
            self.finish()

    def _make_room(self, *texts: str) -> int:
        """Do what is not done yet, unless these texts can be sent with it; return their size in bytes."""
        size = sum(map(size_of, texts))
        if self._size + size > MAX_TEXT:
            self.finish()
        return size

    def commit(self) -> None:
        """Commit, together with what is not done yet."""
        if self._script is None:
            self.answers = answers(self._cursor, *self.take_waiting(), "COMMIT")
        else:
            script, values = self._script
            self.answers = script.run(self._cursor, self._dialect, values)

    def commit_by(self, script: Script, **parameters: Any) -> None:
        """Commit by a script, which does all that this transaction does."""
        self._script = script, {name: self.literal(value) for name, value in {**self._bound, **parameters}.items()}

    def finish(self) -> None:
        if self._waiting:
            say(self._cursor, *self.take_waiting())

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

    def write(self, sql: str, values: Mapping[str, Any]) -> str:
        """Return a statement with its parameters written into it; those that are SqlText stand as they are."""
        literal = self.literal
        return sql % {name: literal(value) for name, value in values.items()}

    def part_of(self, sql: str) -> str:
        """Return a part of a statement with the names of this installation's tables."""
        return self._dialect.table_names.apply(sql)

    def literal(self, value: Any) -> str:
        """Return how a value stands in a statement; PyMySQL takes several times as long for numbers and lists."""
        if value is None:
            return "NULL"
        if type(value) is int:
            return str(value)
        if type(value) is tuple:
            return f"({','.join(map(self.literal, value))})"
        text: str = value if type(value) is SqlText else self._cursor.connection.escape(value)
        return text

    def _texts(self, sql: str, many: list[dict[str, Any]]) -> Iterator[str]:
        """One text for each change, but only one for all rows of an insert that ends with its values."""
        head, values, row = sql.partition(" VALUES ")
        is_plain = sql.startswith("INSERT INTO") and " ON DUPLICATE KEY " not in sql
        if not values or len(many) == 1 or not is_plain:
            yield from (self.write(sql, parameters) for parameters in many)
            return
        rows: list[str] = []
        size = 0
        for parameters in many:
            text = self.write(row, parameters)
            size += size_of(text)
            if rows and size > MAX_TEXT:
                yield f"{head} VALUES {', '.join(rows)}"
                rows, size = [], size_of(text)
            rows.append(text)
        if rows:
            yield f"{head} VALUES {', '.join(rows)}"
