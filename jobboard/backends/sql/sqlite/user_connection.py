"""The board inside an SQLite transaction that is the user's."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.sqlite.errors import explain
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.user_transaction import UserConnection
from jobboard.errors import BoardUnavailable


class SqliteUserConnection(UserConnection):
    """Uses a connection to the board's own file."""

    error = sqlite3.Error
    transaction = Transaction

    def __init__(self, path: Path, dialect: Dialect) -> None:
        self._path = path
        self.dialect = dialect

    def cursor(self, connection: Any) -> Any:
        if not isinstance(connection, sqlite3.Connection):
            raise TypeError(f"connection must be SQLAlchemy's or sqlite3's, not {type(connection).__name__}")
        cursor = connection.cursor()
        cursor.row_factory = None
        if not connection.in_transaction:
            if connection.isolation_level is None:
                raise ValueError("the connection commits every statement by itself; begin a transaction first")
            # As the driver would do before the first change; it does not know that a savepoint begins one.
            cursor.execute("BEGIN IMMEDIATE")
        return cursor

    def now(self, cursor: Any) -> float:
        return time.time()

    def notify(self, cursor: Any, channel: str) -> None:
        """Waiters in other processes poll."""

    def explain(self, error: Exception) -> BoardUnavailable:
        assert isinstance(error, sqlite3.Error)
        return explain(error, self._path)
