"""An SQLite file: its connections, its transactions, its schema."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import create_engine, event
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from jobboard.backends.sql import schema, sidelines
from jobboard.backends.sql.database import Database, Lookout
from jobboard.backends.sql.faults import explain, explain_commit, is_busy, is_newer, locked
from jobboard.backends.sql.hub import hub_of
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import Transaction
from jobboard.errors import BoardUnavailable

T = TypeVar("T")

_DIALECT = SQLiteDialect_pysqlite(paramstyle="named")
#: Threads of one process queue at least for this long, whatever the busy timeout: their turns are short.
_SHORTEST_QUEUE = 5.0
_RETRY_EVERY = 0.01

#: Connections that a parent process made. Even closing them would touch its locks, so a child keeps them for ever.
_inherited: list[object] = []


class SqliteFile(Database):
    """A connection that writes and one that reads, each for one thread at a time.

    :param synchronous: when SQLite waits for the disk.
    :param busy_timeout: seconds to wait for another process that writes.
    :param timeout: the same while opening.
    """

    def __init__(self, path: Path, board_name: str, synchronous: str, busy_timeout: float, timeout: float) -> None:
        if not path.parent.is_dir():
            raise BoardUnavailable(f"there is no directory {path.parent}; create it first")
        self.board_name = board_name
        self.board = 0
        self.hub = hub_of(str(path.resolve()))
        self._path = path
        self._busy_timeout = busy_timeout
        self._pid = os.getpid()
        self._reading = threading.Lock()
        self._engine = _engine_of(path, synchronous, timeout)
        deadline = time.monotonic() + timeout
        self._insist(self._migrate, deadline)
        with contextlib.ExitStack() as opened:
            self._writer = opened.enter_context(contextlib.closing(self._insist(self._connect, deadline)))
            self._reader = opened.enter_context(contextlib.closing(self._insist(self._connect, deadline)))
            self.board = self._find_board()
            for connection in (self._writer, self._reader):
                connection.execute(f"PRAGMA busy_timeout={round(busy_timeout * 1000)}")
            opened.pop_all()

    @property
    def usable(self) -> bool:
        return self._pid == os.getpid()

    def lookout(self) -> Lookout:
        self._check_process()
        try:
            return SqliteLookout(self._connect(), self._path)
        except (DBAPIError, sqlite3.Error) as error:
            raise explain(error, self._path) from error

    def close(self) -> None:
        if not self.usable:
            _inherited.append((self._writer, self._reader))
            return
        with self.hub.writing, self._reading:
            self._writer.close()
            self._reader.close()

    @contextlib.contextmanager
    def write(self) -> Iterator[Transaction]:
        """One transaction that holds the file's write lock from its beginning."""
        self._check_process()
        if not self.hub.writing.acquire(timeout=max(self._busy_timeout, _SHORTEST_QUEUE)):
            raise locked(self._path)
        try:
            cursor = self._writer.cursor()
            cursor.execute("BEGIN IMMEDIATE")
            try:
                transaction = Transaction(cursor, _DIALECT, self.board, time.time())
                yield transaction
                self._commit(cursor)
            except BaseException:
                # SQLite itself has rolled back after some errors, such as a full disk.
                if self._writer.in_transaction:
                    cursor.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise explain(error, self._path) from error
        finally:
            self.hub.writing.release()
        if transaction.changed:
            self.hub.wake(self.board_name)

    @contextlib.contextmanager
    def read(self) -> Iterator[Transaction]:
        """One consistent look; doesn't wait for writers, nor they for it."""
        self._check_process()
        with self._reading:
            try:
                cursor = self._reader.cursor()
                cursor.execute("BEGIN")
                try:
                    yield Transaction(cursor, _DIALECT, self.board, time.time())
                finally:
                    if self._reader.in_transaction:
                        cursor.execute("COMMIT")
            except sqlite3.Error as error:
                raise explain(error, self._path) from error

    def _commit(self, cursor: sqlite3.Cursor) -> None:
        try:
            cursor.execute("COMMIT")
        except sqlite3.Error as error:
            raise explain_commit(error, self._path) from error

    def _check_process(self) -> None:
        if not self.usable:
            raise BoardUnavailable("the board was opened by another process; call connect() in this one")

    # -- opening ---------------------------------------------------------------------------------------------------

    def _insist(self, step: Callable[[], T], deadline: float) -> T:
        """Take one step of opening. Who else opens or closes the file may lock it where no busy timeout applies."""
        while True:
            try:
                return step()
            except (DBAPIError, sqlite3.Error) as error:
                if not is_busy(error) or time.monotonic() > deadline:
                    raise explain(error, self._path) from error
                time.sleep(_RETRY_EVERY)

    def _connect(self) -> sqlite3.Connection:
        """Return a new connection, which belongs to the caller."""
        pooled = self._engine.raw_connection()
        connection: Any = pooled.driver_connection
        pooled.detach()
        assert isinstance(connection, sqlite3.Connection)
        return connection

    def _migrate(self) -> None:
        """Create the tables, or check that those that are there are ours."""
        with self._engine.begin() as connection:
            schema.meta.create(connection, checkfirst=True)
            found = connection.execute(sidelines.READ_VERSION.clause).scalar()
            if found is None:
                schema.metadata.create_all(connection, checkfirst=True)
                connection.execute(sidelines.WRITE_VERSION.clause, {"version": str(schema.VERSION)})
            elif is_newer(found, schema.VERSION):
                raise BoardUnavailable(
                    f"{self._path} was made by a newer jobboard (schema {found}, this one reads {schema.VERSION}); "
                    "upgrade jobboard"
                )

    def _find_board(self) -> int:
        with self.write() as transaction:
            transaction.run(sidelines.ADD_BOARD, name=self.board_name)
            found = transaction.row(sidelines.FIND_BOARD, name=self.board_name)
            assert found is not None
            return int(found[0])


class SqliteLookout(Lookout):
    """Asks ``PRAGMA data_version``, which reads a counter in shared memory: no table, no lock."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._version: int | None = None

    def has_changed(self) -> bool:
        try:
            (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error as error:
            raise explain(error, self._path) from error
        has_changed: bool = version != self._version
        self._version = version
        return has_changed

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        sql, constants = statement.on(_DIALECT)
        try:
            return self._connection.execute(sql, {**constants, **parameters}).fetchall()
        except sqlite3.Error as error:
            raise explain(error, self._path) from error

    def close(self) -> None:
        self._connection.close()


def _engine_of(path: Path, synchronous: str, timeout: float) -> Engine:
    def connect() -> sqlite3.Connection:
        # The path is an argument: in a URL, some characters of a file's name would mean something.
        return sqlite3.connect(
            path, timeout=timeout, isolation_level=None, check_same_thread=False, cached_statements=256
        )

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)

    @event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, _record: object) -> None:
        try:
            # A claim touches a few rows on many pages, and whole pages are what is written.
            connection.execute("PRAGMA page_size=2048")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={synchronous}")
            # They are mostly the same pages again: rarer checkpoints write them back more rarely.
            connection.execute("PRAGMA wal_autocheckpoint=4000")
        except sqlite3.Error:
            connection.close()
            raise

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        # The driver begins nothing by itself, and a transaction that writes must have the lock before it reads.
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine
