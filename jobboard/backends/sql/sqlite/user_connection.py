"""The board inside an SQLite transaction that is the user's."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any, ClassVar

from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.sqlite.errors import explain, is_table_missing
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.user_connection import COMMITS_BY_ITSELF, UserConnection, is_adapted
from jobboard.errors import BoardUnavailable


class SqliteUserConnection(UserConnection):
    """Uses a connection to the board's own file."""

    name: ClassVar[str | None] = "sqlite3"
    error = sqlite3.Error
    transaction = Transaction

    def __init__(self, path: Path, dialect: Dialect) -> None:
        self._path = path
        self.dialect = dialect

    def takes(self, connection: Any) -> bool:
        return isinstance(connection, sqlite3.Connection)

    def cursor(self, connection: Any) -> Any:
        cursor = connection.cursor()
        cursor.row_factory = None
        begin_unless_begun(cursor, connection)
        return cursor

    def lock(self, cursor: Any) -> None:
        # A transaction that has read before it writes is refused, and not made to wait, while another one writes.
        cursor.execute("DELETE FROM jobboard_meta WHERE 0")

    def now(self, cursor: Any) -> float:
        return time.time()

    def explain(self, error: Exception) -> BoardUnavailable:
        assert isinstance(error, sqlite3.Error)
        return explain(error, self._path)

    def is_table_missing(self, error: Exception) -> bool:
        assert isinstance(error, sqlite3.Error)
        return is_table_missing(error)


class AdaptedAiosqliteConnection(SqliteUserConnection):
    name = None

    def takes(self, connection: Any) -> bool:
        return is_adapted(connection, "sqlite.aiosqlite")

    def cursor(self, connection: Any) -> Any:
        cursor = connection.cursor()
        begin_unless_begun(cursor, connection.driver_connection)
        return cursor


def begin_unless_begun(cursor: Any, connection: Any) -> None:
    """Begin a transaction as the driver would do before the first change; it does not know that a savepoint does so.

    :raises ValueError: it would begin none.
    """
    if connection.in_transaction:
        return
    # Since Python 3.12 it may be set by itself.
    if connection.isolation_level is None or getattr(connection, "autocommit", None) is True:
        raise ValueError(COMMITS_BY_ITSELF)
    cursor.execute("BEGIN IMMEDIATE")
