"""The board inside a transaction that is the user's."""

from __future__ import annotations

import abc
import contextlib
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy.engine import Connection

from jobboard.backends.sql import admin_statements
from jobboard.backends.sql.database import Database, Transactions
from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.transaction import Transaction
from jobboard.errors import BoardUnavailable


class UserConnection(abc.ABC):
    """How one kind of database is used on a connection of the user's, which is left as it was found."""

    dialect: Dialect
    error: type[Exception]
    transaction: type[Transaction]

    @abc.abstractmethod
    def cursor(self, connection: Any) -> Any:
        """Return a cursor in a transaction, which may be begun for it.

        :raises TypeError: it is no connection of this driver's.
        :raises ValueError: it commits every statement by itself.
        """

    @abc.abstractmethod
    def now(self, cursor: Any) -> float:
        """Return the time by the clock that judges expiry and delay; raises its own errors."""

    @abc.abstractmethod
    def notify(self, cursor: Any, channel: str) -> None:
        """Notify who listens on the channel, once the transaction commits; raises its own errors."""

    @abc.abstractmethod
    def explain(self, error: Exception) -> BoardUnavailable:
        """Return our error for the driver's."""


class UserTransaction(Transactions):
    """One transaction of the user's, in which each of ours is a part.

    :param database: the board's own database.
    :param connection: the user's.
    :param channel: on which listeners in other processes are notified.
    """

    def __init__(self, database: Database, user_connection: UserConnection, connection: Any, channel: str) -> None:
        self._database = database
        self._user_connection = user_connection
        self._channel = channel
        self._cursor = user_connection.cursor(_driver_connection(connection))
        self._check_database()

    @contextlib.contextmanager
    def write(self) -> Iterator[Transaction]:
        """A part of the user's transaction, undone by an error."""
        with self._explained():
            self._cursor.execute("SAVEPOINT jobboard")
            try:
                transaction = self._begin()
                yield transaction
                transaction.finish()
                if transaction.notifies:
                    self._user_connection.notify(self._cursor, self._channel)
            except BaseException as error:
                self._undo(error)
                raise
            self._cursor.execute("RELEASE SAVEPOINT jobboard")

    def read(self) -> AbstractContextManager[Transaction]:
        return self.write()

    def _begin(self) -> Transaction:
        transaction = self._transaction_at(self._user_connection.now(self._cursor))
        # The rows of other jobs would stay locked for as long as the user's transaction lasts.
        transaction.moves_others = False
        return transaction

    def _transaction_at(self, now: float) -> Transaction:
        kind = self._user_connection
        return kind.transaction(self._cursor, kind.dialect, self._database.board, now)

    def _check_database(self) -> None:
        """Refuse another database, in which the number of this board means nothing."""
        with self._explained():
            self._cursor.execute("SAVEPOINT jobboard")
            try:
                row = self._transaction_at(0.0).row(admin_statements.IDENTITY)
            except self._user_connection.error as error:
                self._undo(error)
                raise ValueError(f"the connection finds no tables of jobboard: {error}") from error
            self._cursor.execute("RELEASE SAVEPOINT jobboard")
        if row is None or row[0] != self._database.identity:
            raise ValueError("the connection leads to another database than the board's")

    def _undo(self, cause: BaseException) -> None:
        try:
            self._cursor.execute("ROLLBACK TO SAVEPOINT jobboard")
        except self._user_connection.error as error:
            # After a deadlock, MySQL has undone all of the transaction, and the savepoint too.
            cause.add_note(f"and the user's transaction can't be saved: {error}")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except self._user_connection.error as error:
            raise self._user_connection.explain(error) from error


def _driver_connection(connection: Any) -> Any:
    """Return the DB-API connection of one of SQLAlchemy's, in the transaction that this one knows of."""
    # Whoever has a session has imported this; importing it here would take long.
    orm = sys.modules.get("sqlalchemy.orm")
    if orm is not None and isinstance(connection, orm.Session):
        connection = connection.connection()
    if not isinstance(connection, Connection):
        return connection
    if not connection.in_transaction():
        # As its first statement would do.
        connection.begin()
    return connection.connection.driver_connection
