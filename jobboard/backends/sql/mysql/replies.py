"""Several statements in one round trip, and the rows of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pymysql.constants import CLIENT

from jobboard.backends.sql.rows import Row


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
    cursor.execute(text)
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
        cursor.execute("; ".join(statements))
        for _ in statements[1:]:
            cursor.nextset()
    else:
        for statement in statements:
            cursor.execute(statement)


def is_mariadb(connection: Any) -> bool:
    return "mariadb" in connection.get_server_info().lower()
