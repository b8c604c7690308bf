"""Several statements in one round trip, and the rows of each; whole transactions, which MariaDB parses once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.mysql.errors import PACKET_TOO_LARGE, TOO_MANY_PREPARED, UNKNOWN_PREPARED, code_of
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement

#: Characters, which no server refuses: of 4 bytes each they are the least ``max_allowed_packet`` that is in use.
_SMALL = 1 << 18


def takes_several(cursor: Any) -> bool:
    """Whether the cursor's connection takes several statements in one text; only some of the user's do."""
    return bool(cursor.connection.client_flag & CLIENT.MULTI_STATEMENTS)


def answers(cursor: Any, *statements: str) -> list[Sequence[Row]]:
    """Run statements, in one round trip where the connection can; return the rows of each that has a result set."""
    if len(statements) > 1 and is_mariadb(cursor.connection):
        # A server sends the reply to each statement by itself, but not that to each part of a compound one.
        return result_sets(cursor, compound(statements), len(statements) + 1)
    texts = [("; ".join(statements), len(statements))] if takes_several(cursor) else [(text, 1) for text in statements]
    return [rows for text, most in texts for rows in result_sets(cursor, text, most)]


def compound(statements: Iterable[str]) -> str:
    return f"BEGIN NOT ATOMIC {'; '.join(statements)}; END"


def result_sets(cursor: Any, text: str, most: int) -> list[Sequence[Row]]:
    """
    :param most: how many results a reply has at most; one without rows counts too.
    """
    _execute(cursor, text)
    found = []
    for _ in range(most):
        if cursor.description is not None:
            found.append(cursor.fetchall())
        if not cursor.nextset():
            break
    return found


def say(cursor: Any, *statements: str) -> None:
    """Run statements, in one round trip where the connection can; the cursor is left at what the last one returned."""
    if takes_several(cursor):
        _execute(cursor, "; ".join(statements))
        for _ in statements[1:]:
            cursor.nextset()
    else:
        for statement in statements:
            _execute(cursor, statement)


def is_mariadb(connection: Any) -> bool:
    return "mariadb" in connection.get_server_info().lower()


def size_of(text: str) -> int:
    """Return the bytes of a statement as it is sent."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


def _execute(cursor: Any, text: str) -> None:
    if len(text) > _SMALL:
        _check_size(cursor, text)
    cursor.execute(text)


def _check_size(cursor: Any, text: str) -> None:
    """Refuse what is too large, as the server would.

    It cuts the connection while the text is still sent, so its reason is often lost.
    """
    connection = cursor.connection
    known: dict[str, Any] = vars(connection)
    if "jobboard_max_packet" not in known:
        cursor.execute("SELECT @@max_allowed_packet")
        known["jobboard_max_packet"] = int(cursor.fetchone()[0])
    size, most = size_of(text), known["jobboard_max_packet"]
    # One byte says that it is a query, and the server keeps one.
    if size + 1 >= most:
        raise pymysql.OperationalError(PACKET_TOO_LARGE, f"{size} bytes are more than max_allowed_packet, {most}")


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
        if known.get(self._name, True) and is_mariadb(connection):
            marked, names = self._marked(dialect)
            execute = f"EXECUTE {self._name} USING {','.join([values[name] for name in names])}"
            if self._name not in known:
                execute = compound([f"PREPARE {self._name} FROM {connection.escape(marked)}", execute])
            try:
                found = result_sets(cursor, execute, len(self._statements) + 1)
            except pymysql.Error as error:
                known[self._name] = code_of(error) not in (TOO_MANY_PREPARED, UNKNOWN_PREPARED)
                if known[self._name]:
                    raise
            else:
                known[self._name] = True
                return found
        return answers(cursor, *(sql % values for sql in self._texts(dialect)))

    def _texts(self, dialect: Dialect) -> list[str]:
        return [statement.on(dialect)[0] for statement in self._statements]

    def _marked(self, dialect: Dialect) -> tuple[str, list[str]]:
        found = self._prepared.get(dialect.key)
        if found is None:
            marks = _Marks()
            text = compound(sql % marks for sql in self._texts(dialect))
            found = self._prepared[dialect.key] = text, marks.names
        return found
