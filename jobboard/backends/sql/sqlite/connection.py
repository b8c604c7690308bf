"""Connections that are never open while the process forks.

SQLite notes in the process's memory which locks its connections hold. A forked child would inherit the notes without
the locks: it would believe that it holds the file, and what it commits could vanish with a log that its parent, as the
last one to close, deletes. So before a fork all connections come to rest and are closed; the parent's next use opens
them again, and the child has none.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

from jobboard.backends.sql.sqlite.errors import replaced


class OpenFile:
    """The file that a path names now, to be found there again: SQLite goes on with one that was moved or deleted."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._found = self._find()

    def _find(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_ino, found.st_dev

    def check(self) -> None:
        """Raise :class:`~jobboard.errors.BoardUnavailable` if the path names another file now, or none."""
        if self._find() != self._found:
            raise replaced(self._path)


class ForkSafeConnection:
    """A connection for the thread that has its lock; made with :data:`opening` held.

    :param file: what it must be connected to.
    :param connect: opens it again after a fork.
    :param lock: what its users take around every use; several handles may share one.
    :param is_writer: locks of writers are taken before those of readers, in a fork as everywhere.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        file: OpenFile,
        connect: Callable[[], sqlite3.Connection],
        lock: threading.Lock,
        is_writer: bool,
    ) -> None:
        self._connection: sqlite3.Connection | None = connection
        self._file = file
        self.lock = lock
        self.is_writer = is_writer
        self._connect = connect
        self._is_closed = False
        _connections.add(self)

    @classmethod
    def of_reader(cls, file: OpenFile, connect: Callable[[], sqlite3.Connection]) -> ForkSafeConnection:
        """Open one that has a lock of its own.

        :raises BoardUnavailable: the file was moved, replaced or deleted.
        """
        # It would make a file where there is none.
        file.check()
        with opening:
            return cls(connect(), file, connect, threading.Lock(), is_writer=False)

    def get(self) -> sqlite3.Connection:
        """Return the connection, opened again after a fork; only with the lock held.

        :raises BoardUnavailable: the file was moved, replaced or deleted.
        """
        self._file.check()
        if self._connection is None:
            if self._is_closed:
                raise sqlite3.ProgrammingError("the board is closed")
            self._connection = self._connect()
        return self._connection

    def rest(self) -> None:
        """Close the connection until it is needed again; only with the lock held."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Close it for good; only with the lock held, or by its only user."""
        self._is_closed = True
        self.rest()


_connections: weakref.WeakSet[ForkSafeConnection] = weakref.WeakSet()
#: Taken around every connection that belongs to no ForkSafeConnection, or not yet.
opening = threading.Lock()
_held: list[threading.Lock] = []


def _come_to_rest() -> None:
    opening.acquire()
    connections = sorted(_connections, key=lambda handle: not handle.is_writer)
    for lock in dict.fromkeys(handle.lock for handle in connections):
        lock.acquire()
        _held.append(lock)
    for handle in connections:
        handle.rest()


def _go_on() -> None:
    while _held:
        _held.pop().release()
    opening.release()


os.register_at_fork(before=_come_to_rest, after_in_parent=_go_on, after_in_child=_go_on)
