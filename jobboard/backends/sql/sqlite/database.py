"""An SQLite file: its connections, its transactions, its schema."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from jobboard.backends.locks import lock_within
from jobboard.backends.sql import admin_statements, schema
from jobboard.backends.sql.change_source import ChangeSource
from jobboard.backends.sql.database import Database, process_notifier_of
from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.migration import refuse_other_version
from jobboard.backends.sql.sqlite.change_source import SqliteChangeSource
from jobboard.backends.sql.sqlite.connection import ForkSafeConnection, OpenFile, opening
from jobboard.backends.sql.sqlite.errors import explain, explain_commit, is_busy, locked
from jobboard.backends.sql.sqlite.migration import statements, version_of
from jobboard.backends.sql.sqlite.notifications import NotificationSender
from jobboard.backends.sql.sqlite.path import check_directory, check_file
from jobboard.backends.sql.sqlite.space import CHECKPOINT_PAGES, LOG_SIZE, PAGE_SIZE
from jobboard.backends.sql.sqlite.transaction import SqliteTransaction
from jobboard.backends.sql.sqlite.user_connection import AdaptedAiosqliteConnection, SqliteUserConnection
from jobboard.backends.sql.statement import json_list
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.user_transaction import UserTransaction
from jobboard.backends.timelimit import seconds_left
from jobboard.errors import BoardUnavailable, NotFound

T = TypeVar("T")

DIALECT = Dialect(SQLiteDialect_pysqlite(paramstyle="named"), json_list)
#: Threads of one process queue at least for this long, whatever the busy timeout: their turns are short.
MIN_QUEUE_TIMEOUT = 5.0
#: Those that read queue for so long; some reads go through all jobs.
READ_QUEUE_TIMEOUT = 30.0
RETRY_INTERVAL = 0.01
#: Seconds between two tries to lock the file; in between, a quarter of what it was waited for so far.
MIN_LOCK_INTERVAL, MAX_LOCK_INTERVAL = 0.00005, 0.025


class SqliteDatabase(Database):
    """A connection that writes and one that reads, each for one thread at a time.

    :param synchronous: when SQLite waits for the disk.
    :param busy_timeout: seconds to wait for another process that writes.
    :param timeout: the same while opening.
    """

    def __init__(self, path: Path, board_name: str, synchronous: str, busy_timeout: float, timeout: float) -> None:
        super().__init__()
        self.board_name = board_name
        self.process_notifier = process_notifier_of(os.path.realpath(path))
        self.path = path
        self._notifications = NotificationSender(path)
        self._synchronous = synchronous
        self._busy_timeout, self._timeout = busy_timeout, timeout
        self._queue_timeout = max(busy_timeout, MIN_QUEUE_TIMEOUT)
        self._locked = locked(path)
        deadline = time.monotonic() + timeout
        self._writer = self._retry(self._open_writer, deadline)
        try:
            self._reader = self._retry(lambda: ForkSafeConnection.of_reader(self._file, self._connect), deadline)
        except BoardUnavailable:
            self._writer.close()
            raise

    def join(self, connection: Any) -> UserTransaction:
        """Return this file as the user's transaction sees it."""
        self.check_process()
        kinds = [kind(self.path, DIALECT) for kind in (SqliteUserConnection, AdaptedAiosqliteConnection)]
        return UserTransaction(self, kinds, connection, "")

    def change_source(self) -> ChangeSource:
        self.check_process()
        try:
            handle = ForkSafeConnection.of_reader(self._file, self._connect)
            return SqliteChangeSource(handle, self.path, DIALECT)
        except sqlite3.Error as error:
            raise explain(error, self.path) from error

    def close(self) -> None:
        for handle in (self._writer, self._reader):
            # Not for ever: the traceback of an interrupt may keep the block that has the lock, until it is forgotten.
            with contextlib.suppress(BoardUnavailable), lock_within(handle.lock, MIN_QUEUE_TIMEOUT, self._locked):
                handle.close()

    @contextlib.contextmanager
    def write(self) -> Iterator[SqliteTransaction]:
        """One transaction that has the file's write lock from its beginning."""
        self.check_process()
        with lock_within(self.process_notifier.writing, self._queue_timeout, self._locked):
            try:
                connection = self._writer.get()
                cursor = connection.cursor()
                transaction = None
                try:
                    self._lock_file(cursor)
                    transaction = SqliteTransaction(cursor, DIALECT, self.board, time.time())
                    yield transaction
                    self._commit(cursor)
                except BaseException:
                    # SQLite itself has rolled back after some errors, such as a full disk. A signal's handler
                    # may raise as soon as the file is locked.
                    if connection.in_transaction:
                        cursor.execute("ROLLBACK")
                    if transaction is not None and transaction.taken is not None:
                        transaction.taken.answer(is_committed=False)
                    raise
                # No fork comes in between: it waits for the lock that is held here.
                if transaction.taken is not None:
                    transaction.taken.answer(is_committed=True)
                if transaction.notifies:
                    self._notifications.send()
            except sqlite3.Error as error:
                raise explain(error, self.path) from error
        if transaction.changed:
            self.process_notifier.notify(self.board_name, transaction.notifies)

    def _lock_file(self, cursor: sqlite3.Cursor) -> None:
        """Wait for the lock here: SQLite would sleep for at least 1 ms each time, and most commits take less."""
        limits: tuple[float, float] | None = None
        while True:
            try:
                cursor.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                limits = limits or (time.monotonic(), seconds_left(self._busy_timeout))
                began, longest = limits
                waited = time.monotonic() - began
                if not is_busy(error) or waited >= longest:
                    raise
            time.sleep(min(max(waited / 4, MIN_LOCK_INTERVAL), MAX_LOCK_INTERVAL))

    @contextlib.contextmanager
    def read(self) -> Iterator[Transaction]:
        """One transaction that reads one consistent state; it does not wait for writers, nor they for it."""
        self.check_process()
        with lock_within(self._reader.lock, READ_QUEUE_TIMEOUT, self._locked):
            try:
                connection = self._reader.get()
                cursor = connection.cursor()
                try:
                    cursor.execute("BEGIN")
                    yield Transaction(cursor, DIALECT, self.board, time.time())
                finally:
                    if connection.in_transaction:
                        cursor.execute("COMMIT")
            except sqlite3.Error as error:
                raise explain(error, self.path) from error

    def _commit(self, cursor: sqlite3.Cursor) -> None:
        try:
            cursor.execute("COMMIT")
        except sqlite3.Error as error:
            raise explain_commit(error, self.path) from error

    # -- opening ---------------------------------------------------------------------------------------------------

    def _retry(self, step: Callable[[], T], deadline: float) -> T:
        """Take one step of opening: others that open or close the file may lock it where no busy timeout applies."""
        while True:
            try:
                return step()
            except sqlite3.Error as error:
                if not is_busy(error) or time.monotonic() > deadline:
                    raise explain(error, self.path) from error
                time.sleep(RETRY_INTERVAL)

    def _connect(self, busy_timeout: float | None = None) -> sqlite3.Connection:
        """Return a new connection, which belongs to the caller; by default it has the busy timeout of the board."""
        connection = sqlite3.connect(
            self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        try:
            # A claim touches a few rows on many pages, and whole pages are what is written.
            connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={self._synchronous}")
            # They are mostly the same pages again: rarer checkpoints write them back more rarely.
            connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
            connection.execute(f"PRAGMA journal_size_limit={LOG_SIZE}")
            seconds = self._busy_timeout if busy_timeout is None else busy_timeout
            connection.execute(f"PRAGMA busy_timeout={round(seconds * 1000)}")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _open_writer(self) -> ForkSafeConnection:
        """Find this board, or create it, by the connection that is to write."""
        with opening:
            connection = self._connect(self._timeout)
            try:
                self.board = self._find_board(connection) or self._create(connection)
                connection.execute("PRAGMA busy_timeout=0")
                self._file = OpenFile(self.path)
            except BaseException:
                connection.close()
                raise
            return ForkSafeConnection(
                connection, self._file, lambda: self._connect(0.0), self.process_notifier.writing, is_writer=True
            )

    def _find_board(self, connection: sqlite3.Connection) -> int | None:
        """Return the number of a board that is there, in tables of our version; None if there is something to write.

        It takes no lock, which a transaction of the user's in this thread may hold.
        """
        version = version_of(connection)
        if version is None:
            return None
        refuse_other_version(version, str(self.path))
        transaction = Transaction(connection.cursor(), DIALECT, 0, 0.0)
        identity = transaction.row(admin_statements.IDENTITY)
        if identity is None:
            return None
        self.identity = str(identity[0])
        board = transaction.row(admin_statements.FIND_BOARD, name=self.board_name)
        return None if board is None else int(board[0])

    def _create(self, connection: sqlite3.Connection) -> int:
        """Create the tables if there are none, and this board; return its number."""
        connection.execute("BEGIN IMMEDIATE")
        found = version_of(connection)
        if found is not None:
            refuse_other_version(found, str(self.path))
        else:
            for statement in statements(connection, self.path):
                connection.execute(statement)
        transaction = Transaction(connection.cursor(), DIALECT, 0, 0.0)
        self.identity = str(transaction.find_or_add(*admin_statements.INSTALLATION, identity=str(uuid.uuid4())))
        board = int(transaction.find_or_add(*admin_statements.BOARD, name=self.board_name))
        connection.execute("COMMIT")
        return board


def board_names(path: Path, timeout: float) -> list[str]:
    """Return the boards that have been opened in a file; makes neither the file nor tables.

    :raises NotFound: there is no file.
    """
    with existing(path, timeout) as file:
        if file.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [schema.boards.name]).fetchone() is None:
            return []
        sql, _ = admin_statements.BOARD_NAMES.on(DIALECT)
        return [name for (name,) in file.execute(sql)]


@contextlib.contextmanager
def existing(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """A connection to a file for the block.

    :raises NotFound: there is no file.
    """
    check_directory(path)
    if not path.exists():
        raise NotFound(f"there is no file {path}, and no board in it")
    check_file(path)
    try:
        with (
            opening,
            contextlib.closing(
                sqlite3.connect(f"{path.as_uri()}?mode=rw", timeout=timeout, uri=True, isolation_level=None)
            ) as file,
        ):
            yield file
    except sqlite3.Error as error:
        raise explain(error, path) from error
