"""A database on a server: its connections, its transactions, its schema."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeVar

from jobboard.backends.sql import admin_statements
from jobboard.backends.sql.change_source import ChangeSource
from jobboard.backends.sql.commit_notifier import CommitNotifier
from jobboard.backends.sql.connection_pool import ConnectionPool, Place
from jobboard.backends.sql.database import Database, process_notifier_of
from jobboard.backends.sql.driver import Beginning, Driver
from jobboard.backends.sql.floors import Floors, Look
from jobboard.backends.sql.migration import check_tables
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import Transaction, Undone
from jobboard.backends.sql.user_transaction import UserTransaction
from jobboard.backends.timelimit import time_limit
from jobboard.errors import BoardUnavailable, JobBoardError

T = TypeVar("T", bound=Transaction)

#: Seconds within which a later connection must be made, or within the reply timeout if that is shorter.
RECONNECT_TIMEOUT = 10.0

#: Seconds between two notifications of what somebody may wait for, and between two of other events.
NOTIFY_INTERVAL, EVENT_INTERVAL = 0.005, 0.05

#: Databases of a parent process: a child that closed their connections would end the parent's.
_inherited: list[ServerDatabase] = []


class ServerDatabase(Database):
    """Several transactions at a time, each on a connection of its own; they lock what they change.

    :param migrate: whether to create the tables; if not, they must be there.
    :param timeout: seconds for the first connection and the schema.
    :param reply_timeout: seconds that the driver waits for a reply.
    """

    def __init__(
        self, driver: Driver, board_name: str, *, pool_size: int, migrate: bool, timeout: float, reply_timeout: float
    ) -> None:
        super().__init__()
        self.board_name = board_name
        self.driver = driver
        #: After these the connection is in order; another one may have come amid a reply.
        self._known_errors = (driver.error, JobBoardError, Undone)
        self._reconnect = min(RECONNECT_TIMEOUT, reply_timeout)
        self.process_notifier = process_notifier_of(f"{driver.where} {driver.dialect.table_names.fingerprint}")
        self._pool = ConnectionPool(self._connect_anew, driver.is_alive, driver.end, pool_size)
        self._commit_notifier = CommitNotifier(driver)
        self._has_failed = False
        self.floors = Floors()
        connection = driver.connect(timeout)
        with self._asking(connection):
            check_tables(driver, connection, migrate, timeout)
            self._find_board(connection)
            new = str(uuid.uuid4())
            self.identity = str(self._find_or_add(connection, *admin_statements.INSTALLATION, identity=new))
        self._pool.adopt(connection)

    @property
    def reachable(self) -> bool:
        """Whether the last request got a connection that did not break."""
        return not self._has_failed

    def join(self, connection: Any) -> UserTransaction:
        """Return this database as the user's transaction sees it."""
        self.check_process()
        channel = self.channel if self.driver.has_channels else None
        return UserTransaction(self, self.driver.user_connections, connection, channel)

    def _connect_anew(self) -> Any:
        with time_limit(self._reconnect):
            connection = self.driver.connect(self._reconnect)
            # The server may have gone back to a backup that knows this board by another number, or not at all.
            with self._asking(connection):
                self._find_board(connection)
        return connection

    def change_source(self) -> ChangeSource:
        self.check_process()
        connection = self._connect_anew()
        with self._asking(connection):
            return self.driver.change_source(connection, self.channel, self._event_channel)

    @contextlib.contextmanager
    def _asking(self, connection: Any) -> Iterator[None]:
        """End a new connection if the block raises."""
        try:
            yield
        except BaseException as error:
            self.driver.end(connection)
            if isinstance(error, self.driver.error):
                raise self.driver.explain(error) from error
            raise

    def close(self) -> None:
        if self.usable:
            self._commit_notifier.close()
            self._pool.close()
        else:
            _inherited.append(self)

    def now(self) -> float:
        with self._borrow() as connection:
            return self.driver.now(connection.cursor())

    def write(self) -> AbstractContextManager[Transaction]:
        """One transaction that sees what others have committed, and locks what it changes."""
        return self.transaction(partial(self._begin, self.driver.begin))

    def read(self) -> AbstractContextManager[Transaction]:
        """One transaction that reads one consistent state; it neither waits nor locks."""
        return self.transaction(
            partial(self._begin, self.driver.begin_read), lambda cursor, _: cursor.execute("COMMIT")
        )

    def _begin(self, begin: Callable[[Any, int, Look], Beginning], cursor: Any) -> Transaction:
        beginning = begin(cursor, self.board, self.floors.look_for_due())
        return self.driver.transaction(cursor, self.driver.dialect, self.board, *beginning)

    @contextlib.contextmanager
    def transaction(self, begin: Callable[[Any], T], commit: Callable[[Any, T], object] | None = None) -> Iterator[T]:
        """One transaction that ``begin`` begins on a cursor; ``commit`` ends it, if that can change nothing."""
        with self._borrow() as connection:
            cursor = connection.cursor()
            transaction = begin(cursor)
            try:
                yield transaction
            except self._known_errors as error:
                self._roll_back(cursor, error)
                raise
            (commit or self._commit)(cursor, transaction)
        if transaction.changed:
            self.notify(transaction.notifies)

    def at_once(self, statement: Statement, **parameters: Any) -> list[Row]:
        """One statement that changes something and is a transaction by itself, in one round trip.

        :raises ReplyLost: the connection broke, and whether it took effect is not known.
        """
        with self._borrow() as connection:
            try:
                return self._rows(connection, statement, parameters)
            except self.driver.error as error:
                raise self.driver.explain_commit(error) from error

    def in_one_trip(self, statements: Sequence[Statement], **parameters: Any) -> list[list[Row]]:
        """Statements that are one transaction, in one round trip where the driver can; return the rows of each.

        :raises ReplyLost: the connection broke, and whether they took effect is not known.
        """
        with self._borrow() as connection:
            given = {"board": self.board, **parameters}
            texts = [statement.on(self.driver.dialect) for statement in statements]
            try:
                every = [(sql, {**constants, **given}) for sql, constants in texts]
                return self.driver.rows_of_transaction(connection, every)
            except self.driver.error as error:
                raise self.driver.explain_commit(error) from error

    def query(self, statement: Statement, **parameters: Any) -> list[Row]:
        """One statement that only reads, in one round trip."""
        with self._borrow() as connection:
            return self._rows(connection, statement, parameters)

    def _rows(self, connection: Any, statement: Statement, parameters: Mapping[str, Any]) -> list[Row]:
        sql, constants = statement.on(self.driver.dialect)
        return self.driver.rows(connection, sql, {**constants, "board": self.board, **parameters})

    def notify(self, is_awaited: bool) -> None:
        """Notify this process's waiters, and soon those of others, that something has changed.

        :param is_awaited: whether somebody may wait for it; if not, only listeners to events want to know.
        """
        self.process_notifier.notify(self.board_name, is_awaited)
        if not self.driver.has_channels:
            return
        if is_awaited:
            self._commit_notifier.request(self.channel, NOTIFY_INTERVAL)
        else:
            self._commit_notifier.request(self._event_channel, EVENT_INTERVAL)

    @contextlib.contextmanager
    def _borrow(self) -> Iterator[Any]:
        """A connection for the block; it is not used again if it broke, or if its state is unknown."""
        self.check_process()
        try:
            place = self._pool.take()
        except BoardUnavailable:
            self._has_failed = True
            raise
        try:
            yield place.connection
        except self.driver.error as error:
            self._return_or_discard(place)
            raise self.driver.explain(error) from error
        except self._known_errors:
            self._return_or_discard(place)
            raise
        except BaseException:
            # A signal's handler raised it, maybe amid a reply, the rest of which would be taken for the next one.
            self._pool.discard(place)
            raise
        self._has_failed = False
        self._pool.give_back(place)

    def _return_or_discard(self, place: Place) -> None:
        if self.driver.is_alive(place.connection):
            self._pool.give_back(place)
        else:
            self._has_failed = True
            self._pool.discard(place)

    def _roll_back(self, cursor: Any, cause: Exception) -> None:
        try:
            cursor.execute("ROLLBACK")
        except self.driver.error as error:
            # The first error says more than that of a broken connection.
            cause.add_note(f"and then the rollback failed: {error}")

    def _commit(self, cursor: Any, transaction: Transaction) -> None:
        try:
            self.driver.commit(transaction, cursor)
        except self.driver.error as error:
            self._roll_back(cursor, error)
            raise self.driver.explain_commit(error) from error

    # -- this board ------------------------------------------------------------------------------------------------

    def _find_or_add(self, connection: Any, find: Statement, add: Statement, **parameters: str) -> Any:
        return Transaction(connection.cursor(), self.driver.dialect, 0, 0.0).find_or_add(find, add, **parameters)

    def _find_board(self, connection: Any) -> None:
        """Learn the number of this board, and by that its channels."""
        self.board = int(self._find_or_add(connection, *admin_statements.BOARD, name=self.board_name))
        #: The channels on which other processes are notified that there may be something for them, and of what only
        #: listeners to events want to know.
        self.channel = f"jobboard_{self.driver.dialect.table_names.fingerprint}_{self.board}"
        self._event_channel = f"{self.channel}_events"
