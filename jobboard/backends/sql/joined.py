"""The board inside a transaction that is the user's."""

from __future__ import annotations

import abc
import contextlib
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy.engine import Connection

from jobboard.backends.sql import sidelines
from jobboard.backends.sql.database import Database, Lookout
from jobboard.backends.sql.statement import Tongue
from jobboard.backends.sql.transaction import Transaction
from jobboard.errors import BoardUnavailable


class Guest(abc.ABC):
    """How a kind of database is used on a connection that is somebody else's, and is left as it was found."""

    tongue: Tongue
    error: type[Exception]
    transaction: type[Transaction]

    @abc.abstractmethod
    def cursor(self, connection: Any) -> Any:
        """Return a cursor in a transaction, which the driver may have begun for it.

        :raises TypeError: it is no connection of this driver's.
        :raises ValueError: it commits every statement by itself.
        """

    @abc.abstractmethod
    def now(self, cursor: Any) -> float:
        """Return the time by the clock that judges expiry and delay; raises its own errors."""

    @abc.abstractmethod
    def announce(self, cursor: Any, channel: str) -> None:
        """Once the transaction commits, tell those who listen on the channel; raises its own errors."""

    @abc.abstractmethod
    def explain(self, error: Exception) -> BoardUnavailable:
        """Return our error for the driver's."""


class Joined(Database):
    """One transaction of the user's, in which each of ours is a part.

    :param at_home: the same board's own database.
    """

    def __init__(self, at_home: Database, guest: Guest, connection: Any, channel: str) -> None:
        self.hub = at_home.hub
        self.board = at_home.board
        self.board_name = at_home.board_name
        self.identity = at_home.identity
        self._guest = guest
        self._channel = channel
        self._cursor = guest.cursor(_driver_connection(connection))
        self._check_database()

    @property
    def usable(self) -> bool:
        return True

    @contextlib.contextmanager
    def write(self) -> Iterator[Transaction]:
        """A part of the user's transaction, undone by an error."""
        with self._explained():
            self._cursor.execute("SAVEPOINT jobboard")
            try:
                transaction = self._transaction()
                yield transaction
                transaction.finish()
                if transaction.stirs:
                    self._guest.announce(self._cursor, self._channel)
            except BaseException as error:
                self._undo(error)
                raise
            self._cursor.execute("RELEASE SAVEPOINT jobboard")

    def read(self) -> AbstractContextManager[Transaction]:
        return self.write()

    def lookout(self) -> Lookout:
        raise NotImplementedError("nobody waits in a transaction")

    def close(self) -> None:
        """The connection is the user's."""

    def _transaction(self) -> Transaction:
        now = self._guest.now(self._cursor)
        transaction = self._guest.transaction(self._cursor, self._guest.tongue, self.board, now)
        # What is due is others' business: their rows would stay locked for as long as the user's transaction lasts.
        transaction.settles = False
        return transaction

    def _check_database(self) -> None:
        """A number of a board means nothing in another database."""
        with self._explained():
            self._cursor.execute("SAVEPOINT jobboard")
            try:
                transaction = self._guest.transaction(self._cursor, self._guest.tongue, self.board, 0.0)
                row = transaction.row(sidelines.IDENTITY)
            except self._guest.error as error:
                self._undo(error)
                raise ValueError(f"the connection finds no tables of jobboard: {error}") from error
            self._cursor.execute("RELEASE SAVEPOINT jobboard")
        if row is None or row[0] != self.identity:
            raise ValueError("the connection leads to another database than the board's")

    def _undo(self, cause: BaseException) -> None:
        try:
            self._cursor.execute("ROLLBACK TO SAVEPOINT jobboard")
        except self._guest.error as error:
            # After a deadlock, MySQL has undone all of the transaction and the savepoint too.
            cause.add_note(f"and the user's transaction can't be saved: {error}")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except self._guest.error as error:
            raise self._guest.explain(error) from error


def _driver_connection(connection: Any) -> Any:
    """Return the DB-API connection of one of SQLAlchemy's, in the transaction that this one knows of."""
    # Nobody has a session who has not imported this, and it takes long.
    orm = sys.modules.get("sqlalchemy.orm")
    if orm is not None and isinstance(connection, orm.Session):
        connection = connection.connection()
    if not isinstance(connection, Connection):
        return connection
    if not connection.in_transaction():
        # As its first statement would do.
        connection.begin()
    return connection.connection.driver_connection
