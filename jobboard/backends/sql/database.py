"""One database file: its connections, its transactions, and who is to be woken after a commit."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from jobboard.backends.sql import schema, statements
from jobboard.backends.sql.faults import explain, is_newer
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statements import Statement
from jobboard.errors import BoardUnavailable


class Transaction:
    """Statements of one board inside one transaction; ``:board`` and ``:now`` are bound in all of them."""

    __slots__ = ("_bound", "_cursor", "changed", "now")

    def __init__(self, cursor: sqlite3.Cursor, board: int, now: float) -> None:
        self._cursor = cursor
        self._bound = {"board": board, "now": now}
        self.now = now
        self.changed = False

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        self._cursor.execute(statement.sql, {**statement.constants, **self._bound, **parameters})
        return self._cursor.fetchall()

    def row(self, statement: Statement, **parameters: Any) -> Row | None:
        rows = self.rows(statement, **parameters)
        return rows[0] if rows else None

    def run(self, statement: Statement, **parameters: Any) -> int:
        """Change something; returns how many rows, or for a single insert can be asked for its id."""
        self.changed = True
        self._cursor.execute(statement.sql, {**statement.constants, **self._bound, **parameters})
        return self._cursor.rowcount

    def run_many(self, statement: Statement, many: Sequence[Mapping[str, Any]]) -> None:
        self.changed = True
        fixed = {**statement.constants, **self._bound}
        self._cursor.executemany(statement.sql, [{**fixed, **parameters} for parameters in many])

    @property
    def last_id(self) -> int:
        return self._cursor.lastrowid or 0


class Hub:
    """Wakes the waiters of this process when one of its transactions has changed the file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wakers: set[Callable[[], None]] = set()
        #: Writers of one process queue here, and not in SQLite's busy handler, which sleeps.
        self.writing = threading.Lock()

    def add(self, wake: Callable[[], None]) -> None:
        with self._lock:
            self._wakers.add(wake)

    def remove(self, wake: Callable[[], None]) -> None:
        with self._lock:
            self._wakers.discard(wake)

    def wake(self) -> None:
        if self._wakers:
            with self._lock:
                wakers = list(self._wakers)
            for wake in wakers:
                wake()


_hubs: weakref.WeakValueDictionary[tuple[int, str], Hub] = weakref.WeakValueDictionary()
_hubs_lock = threading.Lock()


def hub_of(path: Path) -> Hub:
    """Return the hub of a file; a forked child has hubs of its own."""
    with _hubs_lock:
        identity = (os.getpid(), str(path.resolve()))
        hub = _hubs.get(identity)
        if hub is None:
            hub = _hubs[identity] = Hub()
        return hub


class Database:
    """An SQLite file as one board sees it: a connection that writes, one that reads, each for one thread at a time.

    SQLAlchemy makes the connections and builds the statements; they run on the DB-API connection itself, since its own
    layer costs several times what a statement does.
    """

    def __init__(self, path: Path, board: str, synchronous: str, busy_timeout: float) -> None:
        self._path = path
        self._board_name = board
        self._synchronous = synchronous
        self._busy_timeout = busy_timeout
        self.hub = hub_of(path)
        self._reading = threading.Lock()
        self._pid = os.getpid()
        self._board = 0
        self._engine = self._make_engine()
        try:
            self._migrate()
            self._writer, self._reader = self.connect(), self.connect()
            self._board = self._find_board()
        except (DBAPIError, sqlite3.Error) as error:
            self._engine.dispose()
            raise explain(error, path) from error
        except BoardUnavailable:
            self._engine.dispose()
            raise

    @property
    def board(self) -> int:
        """The number of this board in the file."""
        return self._board

    @property
    def usable(self) -> bool:
        return self._pid == os.getpid()

    def connect(self) -> sqlite3.Connection:
        """Return a new connection that belongs to the caller."""
        pooled = self._engine.raw_connection()
        connection: sqlite3.Connection = pooled.driver_connection  # type: ignore[assignment]
        pooled.detach()
        return connection

    def close(self) -> None:
        if self.usable:
            with self.hub.writing, self._reading:
                self._writer.close()
                self._reader.close()
        self._engine.dispose(close=self.usable)

    @contextlib.contextmanager
    def write(self) -> Iterator[Transaction]:
        """One transaction that holds the file's write lock from its beginning."""
        self._check_process()
        with self.hub.writing:
            try:
                cursor = self._writer.cursor()
                cursor.execute("BEGIN IMMEDIATE")
                try:
                    transaction = Transaction(cursor, self._board, time.time())
                    yield transaction
                    cursor.execute("COMMIT")
                except BaseException:
                    if self._writer.in_transaction:
                        cursor.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise explain(error, self._path) from error
        if transaction.changed:
            self.hub.wake()

    @contextlib.contextmanager
    def read(self) -> Iterator[Transaction]:
        """One consistent look; doesn't wait for writers, nor they for it."""
        self._check_process()
        with self._reading:
            try:
                cursor = self._reader.cursor()
                cursor.execute("BEGIN")
                try:
                    yield Transaction(cursor, self._board, time.time())
                finally:
                    if self._reader.in_transaction:
                        cursor.execute("COMMIT")
            except sqlite3.Error as error:
                raise explain(error, self._path) from error

    def _check_process(self) -> None:
        """SQLite's connections must not cross a fork."""
        if not self.usable:
            raise BoardUnavailable("the board was opened by another process; call connect() in this one")

    def _make_engine(self) -> Engine:
        # The path goes in as an argument: in a URL, some characters of a file's name would mean something.
        engine = create_engine(
            "sqlite://",
            creator=lambda: sqlite3.connect(
                self._path, timeout=self._busy_timeout, isolation_level=None, check_same_thread=False
            ),
        )

        @event.listens_for(engine, "connect")
        def set_up(connection: sqlite3.Connection, _record: object) -> None:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={self._synchronous}")

        @event.listens_for(engine, "begin")
        def begin(connection: Any) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

        return engine

    def _migrate(self) -> None:
        """Create the tables, or check that those that are there are ours."""
        if not self._path.parent.is_dir():
            raise BoardUnavailable(f"there is no directory {self._path.parent}; create it first")
        with self._engine.begin() as connection:
            schema.meta.create(connection, checkfirst=True)
            found = connection.exec_driver_sql(statements.READ_VERSION.sql, statements.READ_VERSION.constants).scalar()
            if found is not None and is_newer(found, schema.VERSION):
                raise BoardUnavailable(
                    f"{self._path} was made by a newer jobboard (schema {found}, this one reads {schema.VERSION}); "
                    "upgrade jobboard"
                )
            if found is None:
                schema.metadata.create_all(connection, checkfirst=True)
                write = statements.WRITE_VERSION
                connection.exec_driver_sql(write.sql, {**write.constants, "version": str(schema.VERSION)})

    def _find_board(self) -> int:
        with self.write() as transaction:
            found = transaction.row(statements.FIND_BOARD, name=self._board_name)
            if found is None:
                transaction.run(statements.ADD_BOARD, name=self._board_name)
                found = transaction.row(statements.FIND_BOARD, name=self._board_name)
            assert found is not None
            return int(found[0])
