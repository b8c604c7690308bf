"""A database on a server: its connections, its transactions, its schema."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from jobboard.backends.sql import sidelines
from jobboard.backends.sql.database import Database, Lookout
from jobboard.backends.sql.driver import Driver
from jobboard.backends.sql.hub import hub_of
from jobboard.backends.sql.joined import Joined
from jobboard.backends.sql.migrating import bring_to_our_version, check_version
from jobboard.backends.sql.pool import Pool
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import Transaction
from jobboard.errors import BoardUnavailable

#: How long a connection that is made later, when one broke, may take, in seconds, unless a reply must not take as long.
_RECONNECT = 10.0

#: What a fork has copied: to close such a connection would end that of the parent.
_inherited: list[Server] = []


class Server(Database):
    """Several transactions at a time, each on a connection of its own; what they change together, they lock.

    :param migrate: whether to create or upgrade the tables; if not, they must be there.
    :param timeout: seconds for the first connection and the schema.
    :param reply_timeout: seconds that the driver waits for a reply.
    """

    def __init__(
        self, driver: Driver, board_name: str, *, pool_size: int, migrate: bool, timeout: float, reply_timeout: float
    ) -> None:
        self.board_name = board_name
        self.driver = driver
        self._reconnect = min(_RECONNECT, reply_timeout)
        self.hub = hub_of(f"{driver.where} {driver.tongue.naming.mark}")
        self._pid = os.getpid()
        self._pool = Pool(self._connect_anew, driver.is_alive, driver.end, pool_size)
        self._has_failed = False
        connection = driver.connect(timeout)
        try:
            (bring_to_our_version if migrate else check_version)(driver, connection)
            self.board = self._number_of_board(connection)
            self.identity = self._identity_of(connection)
        except driver.error as error:
            driver.end(connection)
            raise driver.explain(error) from error
        except BaseException:
            driver.end(connection)
            raise
        self._pool.adopt(connection)

    @property
    def usable(self) -> bool:
        return self._pid == os.getpid()

    @property
    def reachable(self) -> bool:
        """Whether the last connection that was wanted could be had, and did not break."""
        return not self._has_failed

    def join(self, connection: Any) -> Joined:
        """Return this database as the user's transaction sees it."""
        self._check_process()
        return Joined(self, self.driver, connection, self.channel)

    def _connect_anew(self) -> Any:
        return self.driver.connect(self._reconnect)

    def lookout(self) -> Lookout:
        self._check_process()
        connection = self._connect_anew()
        try:
            return self.driver.lookout(connection, self.channel)
        except BaseException as error:
            self.driver.end(connection)
            if isinstance(error, self.driver.error):
                raise self.driver.explain(error) from error
            raise

    def close(self) -> None:
        if self.usable:
            self._pool.close()
        else:
            _inherited.append(self)

    def now(self) -> float:
        with self._lent() as connection:
            return self.driver.now(connection.cursor())

    def write(self) -> AbstractContextManager[Transaction]:
        """One transaction that sees what others have committed; what it is to change, it locks first."""
        return self.transaction(self._begin)

    def _begin(self, cursor: Any) -> Transaction:
        now, look = self.driver.begin(cursor, self.board)
        return self.driver.transaction(cursor, self.driver.tongue, self.board, now, look)

    @contextlib.contextmanager
    def transaction(self, begin: Callable[[Any], Transaction]) -> Iterator[Transaction]:
        """One transaction that is begun in its own way, on a cursor."""
        with self._lent() as connection:
            cursor = connection.cursor()
            transaction = begin(cursor)
            try:
                yield transaction
            except Exception as error:
                self._roll_back(cursor, error)
                raise
            self._commit(cursor, transaction)
        if transaction.changed:
            self.wake()

    def at_once(self, statement: Statement, **parameters: Any) -> list[Row]:
        """One statement that changes something and is a transaction by itself, in one round trip.

        :raises ReplyLost: the connection broke, and whether it took effect is not known.
        """
        with self._lent() as connection:
            try:
                return self._rows(connection, statement, parameters)
            except self.driver.error as error:
                raise self.driver.explain_commit(error) from error

    def look_at_once(self, statement: Statement, **parameters: Any) -> list[Row]:
        """One statement that only looks, in one round trip."""
        with self._lent() as connection:
            return self._rows(connection, statement, parameters)

    def _rows(self, connection: Any, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        sql, constants = statement.on(self.driver.tongue)
        cursor = connection.cursor()
        cursor.execute(sql, {**constants, "board": self.board, **parameters})
        rows: list[Row] = cursor.fetchall()
        return rows

    def wake(self) -> None:
        """Tell those of this process who wait that something has changed."""
        self.hub.wake(self.board_name)

    @contextlib.contextmanager
    def read(self) -> Iterator[Transaction]:
        """One consistent look, which waits for nobody and locks nothing."""
        with self._lent() as connection:
            cursor = connection.cursor()
            now, look = self.driver.begin_look(cursor, self.board)
            try:
                yield self.driver.transaction(cursor, self.driver.tongue, self.board, now, look)
            except Exception as error:
                self._roll_back(cursor, error)
                raise
            cursor.execute("COMMIT")

    @contextlib.contextmanager
    def _lent(self) -> Iterator[Any]:
        """A connection for the block; a broken one, or one that is left in any other way, is not used again."""
        self._check_process()
        try:
            connection = self._pool.take()
        except BoardUnavailable:
            self._has_failed = True
            raise
        try:
            yield connection
        except self.driver.error as error:
            self._give_up(connection)
            raise self.driver.explain(error) from error
        except Exception:
            self._give_up(connection)
            raise
        except BaseException:
            # Nobody knows what a thread was doing that was interrupted.
            self._pool.discard(connection)
            raise
        self._has_failed = False
        self._pool.give_back(connection)

    def _give_up(self, connection: Any) -> None:
        if self.driver.is_alive(connection):
            self._pool.give_back(connection)
        else:
            self._has_failed = True
            self._pool.discard(connection)

    def _roll_back(self, cursor: Any, cause: Exception) -> None:
        try:
            cursor.execute("ROLLBACK")
        except self.driver.error as error:
            # The first error says more than that of a connection which is gone.
            cause.add_note(f"and then the rollback failed: {error}")

    def _commit(self, cursor: Any, transaction: Transaction) -> None:
        try:
            self.driver.commit(transaction, cursor, self.channel if transaction.stirs else None)
        except self.driver.error as error:
            self._roll_back(cursor, error)
            raise self.driver.explain_commit(error) from error

    @property
    def channel(self) -> str:
        """On which those of other processes hear that there may be something for them."""
        return f"jobboard_{self.driver.tongue.naming.mark}_{self.board}"

    def _check_process(self) -> None:
        if not self.usable:
            raise BoardUnavailable("the board was opened by another process; call connect() in this one")

    # -- this board ------------------------------------------------------------------------------------------------

    def _identity_of(self, connection: Any) -> str:
        transaction = Transaction(connection.cursor(), self.driver.tongue, 0, 0.0)
        row = transaction.row(sidelines.IDENTITY)
        if row is None:
            transaction.run(sidelines.NAME_INSTALLATION, identity=str(uuid.uuid4()))
            row = transaction.row(sidelines.IDENTITY)
        assert row is not None
        return str(row[0])

    def _number_of_board(self, connection: Any) -> int:
        transaction = Transaction(connection.cursor(), self.driver.tongue, 0, 0.0)
        row = transaction.row(sidelines.FIND_BOARD, name=self.board_name)
        if row is None:
            transaction.run(sidelines.ADD_BOARD, name=self.board_name)
            row = transaction.row(sidelines.FIND_BOARD, name=self.board_name)
        assert row is not None
        return int(row[0])
