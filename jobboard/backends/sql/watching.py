"""Noticing that the file has changed: at once for this process, within 20 ms for others."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable

from jobboard.arguments import moment
from jobboard.backend import Waiter
from jobboard.backends.sql import statements
from jobboard.backends.sql.database import Database
from jobboard.backends.sql.rows import Row
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent

_POLL_EVERY = 0.02


class _Listener:
    def __init__(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind], after: int) -> None:
        self.tell, self.kinds, self.after = tell, kinds, after


class Watcher:
    """One thread that asks ``PRAGMA data_version`` while somebody waits or listens, and no one else does.

    That pragma reads a counter in shared memory: no table, no lock. A commit of this process doesn't wait for it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changed = threading.Condition()
        self.changes = 0
        self.closed = False
        self._users = 0
        self._listeners: list[_Listener] = []
        self._last_event = 0
        self._delivering = threading.Lock()
        self._nudged = threading.Event()
        self._thread: threading.Thread | None = None
        database.hub.add(self._nudge)

    def close(self) -> None:
        self._database.hub.remove(self._nudge)
        with self._changed:
            self.closed = True
            self._changed.notify_all()
            thread = self._thread
        self._nudged.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    # -- waiting ---------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Count one who waits or listens; the first one starts the thread."""
        with self._changed:
            self._check_open()
            self._users += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="jobboard-sqlite", daemon=True)
                self._thread.start()

    def leave(self) -> None:
        with self._changed:
            self._users -= 1
        self._nudged.set()

    def wait_for_change(self, seen: int, timeout: float | None, is_interrupted: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.closed or self.changes != seen or is_interrupted(), timeout)
            self._check_open()

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _check_open(self) -> None:
        if self.closed:
            raise BoardUnavailable("the board was closed while somebody waited on it")

    def _nudge(self) -> None:
        """A commit of this process: waiters need no thread to learn of it, listeners' events are read by it."""
        if self._users:
            with self._changed:
                self.changes += 1
                self._changed.notify_all()
            if self._listeners:
                self._nudged.set()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        connection = self._database.connect()
        try:
            version = _version_of(connection)
            while self._is_wanted():
                self._nudged.wait(_POLL_EVERY)
                nudged = self._nudged.is_set()
                self._nudged.clear()
                seen = _version_of(connection)
                if seen != version:
                    version = seen
                    with self._changed:
                        self.changes += 1
                        self._changed.notify_all()
                    nudged = True
                if nudged:
                    self._deliver(connection)
        except sqlite3.Error:
            # Waiters look for themselves when their time is up; the next one who waits starts a new thread.
            with self._changed:
                self._thread = None
        finally:
            connection.close()

    def _is_wanted(self) -> bool:
        with self._changed:
            if self._users and not self.closed:
                return True
            self._thread = None
            return False

    # -- events ----------------------------------------------------------------------------------------------------

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        self.enter()
        with self._database.read() as transaction:
            row = transaction.row(statements.LAST_EVENT)
        listener = _Listener(tell, kinds, row[0] if row else 0)
        with self._delivering:
            if not self._listeners:
                self._last_event = listener.after
            self._listeners.append(listener)

        def unlisten() -> None:
            with self._delivering:
                if listener not in self._listeners:
                    return
                self._listeners.remove(listener)
            self.leave()

        return unlisten

    def _deliver(self, connection: sqlite3.Connection) -> None:
        with self._delivering:
            while self._listeners:
                rows = connection.execute(
                    statements.EVENTS.sql, {**statements.EVENTS.constants, "last": self._last_event}
                ).fetchall()
                for row in rows:
                    self._last_event = row[0]
                    if row[8] == self._database.board:
                        self._tell(row)
                if len(rows) < 1000:
                    return

    def _tell(self, row: Row) -> None:
        number, kind, uuid, name, who, at, token, reason, _ = row
        event = JobEvent(EventKind(kind), uuid, name, who, token, moment(at), reason)
        for listener in self._listeners:
            if number > listener.after and event.kind in listener.kinds:
                listener.tell(event)


class SqlWaiter(Waiter):
    """Looks at the heads of the indexes, and only after something has changed in the file."""

    def __init__(self, watcher: Watcher, ready_in: Callable[[], float | None]) -> None:
        self._watcher = watcher
        self._ready_in = ready_in
        self._seen = -1
        self._interrupted = False
        self._entered = True
        watcher.enter()

    def ready_in(self) -> float | None:
        self._seen = self._watcher.changes
        return self._ready_in()

    def wait(self, timeout: float | None) -> None:
        self._watcher.wait_for_change(self._seen, timeout, lambda: self._interrupted)
        self._interrupted = False

    def interrupt(self) -> None:
        self._interrupted = True
        self._watcher.wake()

    def close(self) -> None:
        if self._entered:
            self._entered = False
            self._watcher.leave()


def _version_of(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA data_version").fetchone()[0]
    return version
