"""The board inside a transaction that is the user's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from jobboard.backends.sql import admin_statements
from jobboard.backends.sql.database import Database, Transactions
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.user_connection import UserConnection, kind_of, unwrap
from jobboard.errors import BoardUnavailable


class UserTransaction(Transactions):
    """One transaction of the user's, in which each of ours is a part.

    :param database: the board's own database.
    :param kinds: the kinds of connections that lead to such a database.
    :param connection: the user's.
    :param channel: on which listeners in other processes are notified; None: nobody listens on channels.
    """

    are_users = True

    def __init__(
        self, database: Database, kinds: Sequence[UserConnection], connection: Any, channel: str | None
    ) -> None:
        self._database = database
        self._channel = channel
        below = unwrap(connection)
        self._user_connection = kind_of(below, kinds)
        with self._explained():
            self._cursor = self._user_connection.cursor(below)
        #: The number of the board; None until a part has found it, and that the database is the board's own.
        self._board: int | None = None

    @contextlib.contextmanager
    def write(self) -> Iterator[Transaction]:
        """A part of the user's transaction, undone by an error.

        :raises ValueError: the connection leads to another database than the board's, in which it would mean nothing.
        """
        with self._part():
            transaction = self._begin()
            yield transaction
            transaction.finish()
            if transaction.notifies and self._channel is not None:
                self._user_connection.notify(self._cursor, self._channel)

    def read(self) -> AbstractContextManager[Transaction]:
        return self.write()

    def at_once(self, statement: Statement, **parameters: Any) -> list[Row]:
        """One statement that is a part by itself, and that looks itself whether it is in the board's own database.

        It gets ``identity`` and ``board_name`` for that, and ``channel`` to notify waiters.
        """
        database = self._database
        asked = {"identity": database.identity, "board_name": database.board_name, "channel": self._channel}
        with self._part():
            return self._transaction_at(0.0, database.board).rows(statement, **asked, **parameters)

    @contextlib.contextmanager
    def _part(self) -> Iterator[None]:
        with self._explained():
            self._cursor.execute("SAVEPOINT jobboard")
            try:
                yield
            except BaseException as error:
                self._undo(error)
                raise
            self._cursor.execute("RELEASE SAVEPOINT jobboard")

    def _begin(self) -> Transaction:
        if self._board is None:
            self._board = self._find_board()
        transaction = self._transaction_at(self._user_connection.now(self._cursor), self._board)
        # The rows of other jobs would stay locked for as long as the user's transaction lasts.
        transaction.moves_others = False
        return transaction

    def _transaction_at(self, now: float, board: int) -> Transaction:
        kind = self._user_connection
        return kind.transaction(self._cursor, kind.dialect, board, now)

    def _find_board(self) -> int:
        name = self._database.board_name
        try:
            self._user_connection.lock(self._cursor)
            row = self._transaction_at(0.0, 0).row(admin_statements.IDENTITY_AND_BOARD, name=name)
        except self._user_connection.error as error:
            if not self._user_connection.is_table_missing(error):
                raise
            raise ValueError(f"the connection finds no tables of jobboard: {error}") from error
        if row is None or row[0] != self._database.identity:
            raise ValueError("the connection leads to another database than the board's")
        if row[1] is None:
            raise BoardUnavailable(f"the database has no board {name!r} any more; close() and connect() again")
        return int(row[1])

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
