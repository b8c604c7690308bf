"""Whole transactions of fixed statements, in one round trip; MariaDB parses them once for each connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pymysql

from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.mysql import replies
from jobboard.backends.sql.mysql.errors import TOO_MANY_PREPARED, UNKNOWN_PREPARED, code_of
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement


class _Marks(dict[str, str]):
    """Stands for the values of a text: each is a mark, and the names are noted in the order of the marks."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __missing__(self, name: str) -> str:
        self.names.append(name)
        return "?"


class Script:
    """
    :param name: what it is called on the server.
    :param statements: all of the transaction, from its begin to its commit.
    """

    def __init__(self, name: str, *statements: Statement) -> None:
        self._name = f"jobboard_{name}"
        self._statements = statements
        self._prepared: dict[str, tuple[str, list[str]]] = {}

    def run(self, cursor: Any, dialect: Dialect, values: Mapping[str, str]) -> list[Sequence[Row]]:
        """Return the rows of each statement that has any.

        :param values: the parameters, as they stand in a statement.
        """
        connection = cursor.connection
        # Whether the connection has it prepared. Where that fails once, because the server has too many or a proxy has
        # changed the session, the statements are sent as they are from then on.
        known: dict[str, bool] = vars(connection).setdefault("jobboard_scripts", {})
        if known.get(self._name, True) and replies.is_mariadb(connection):
            marked, names = self._marked(dialect)
            execute = f"EXECUTE {self._name} USING {','.join([values[name] for name in names])}"
            if self._name not in known:
                execute = replies.compound([f"PREPARE {self._name} FROM {connection.escape(marked)}", execute])
            try:
                found = replies.result_sets(cursor, execute, len(self._statements) + 1)
            except pymysql.Error as error:
                known[self._name] = code_of(error) not in (TOO_MANY_PREPARED, UNKNOWN_PREPARED)
                if known[self._name]:
                    raise
            else:
                known[self._name] = True
                return found
        return replies.answers(cursor, *(sql % values for sql in self._texts(dialect)))

    def _texts(self, dialect: Dialect) -> list[str]:
        return [statement.on(dialect)[0] for statement in self._statements]

    def _marked(self, dialect: Dialect) -> tuple[str, list[str]]:
        found = self._prepared.get(dialect.key)
        if found is None:
            marks = _Marks()
            text = replies.compound(sql % marks for sql in self._texts(dialect))
            found = self._prepared[dialect.key] = text, marks.names
        return found
