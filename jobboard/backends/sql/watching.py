"""Noticing that the database has changed: at once for this process, as soon as its lookout notices for others."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from jobboard.backends.base import Waiter
from jobboard.backends.listeners import Listener
from jobboard.backends.sql import news
from jobboard.backends.sql.database import Database, Lookout
from jobboard.backends.sql.rows import Row
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent
from jobboard.validation import moment

logger = logging.getLogger("jobboard.backends.sql")

#: For so long the thread outlives who waits, since waiting often goes on at once.
_LINGER = 1.0
_PAUSE_AFTER_FAULT = 0.5
#: Who closes the board waits no longer than this for the thread.
_CLOSED_WITHIN = 2.0


class _Latecomer(Listener):
    """Hears only of what was written after it came."""

    def __init__(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind], after: int) -> None:
        super().__init__(tell, kinds)
        self.after = after


class Watcher:
    """One thread that looks out for other processes' commits while somebody waits or listens.

    Who waits on a commit of this process doesn't depend on it; events of this process too are told by it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._changed = threading.Condition()
        self.changes = 0
        self._closed = False
        self._users = 0
        self._left_at = 0.0
        self._thread: threading.Thread | None = None
        self._lookout: Lookout | None = None
        #: Set when the thread has something to do before its next look.
        self._nudged = threading.Event()
        self._listeners: list[_Latecomer] = []
        self._last_event = 0
        # Reentrant, because a listener may end itself when it is told something.
        self._telling = threading.RLock()
        database.hub.add(database.board_name, self._on_own_commit)

    def close(self) -> None:
        self._database.hub.remove(self._on_own_commit)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        self._nudge()
        if thread is not None and thread is not threading.current_thread():
            # It looks for its end itself, once the request that it is at has its answer or its time-out.
            thread.join(_CLOSED_WITHIN)

    def _nudge(self) -> None:
        self._nudged.set()
        lookout = self._lookout
        if lookout is not None:
            lookout.interrupt()

    # -- waiting ---------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Count one who waits or listens; the first one starts the thread."""
        with self._changed:
            self._check_open()
            self._users += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="jobboard-sql", daemon=True)
                self._thread.start()
        self._nudge()

    def leave(self) -> None:
        with self._changed:
            self._users -= 1
            self._left_at = time.monotonic()

    def wait_for_change(self, seen: int, timeout: float | None, is_interrupted: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self.changes != seen or is_interrupted(), timeout)
            self._check_open()

    def wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _check_open(self) -> None:
        if self._closed:
            raise BoardUnavailable("the board was closed while somebody waited on it")

    def _on_own_commit(self) -> None:
        if self._users:
            self._tell_waiters()
            if self._listeners:
                self._nudge()

    def _tell_waiters(self) -> None:
        with self._changed:
            self.changes += 1
            self._changed.notify_all()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._is_wanted():
            try:
                self._lookout = lookout = self._database.lookout()
                try:
                    self._look_out(lookout)
                finally:
                    self._lookout = None
                    lookout.close()
            except BoardUnavailable as error:
                logger.warning("board %s: can't see what other processes do: %s", self._database.board_name, error)
                # Who waits looks for itself, and meets the fault or a change.
                self._tell_waiters()
                self._pause()

    def _look_out(self, lookout: Lookout) -> None:
        # The first look always finds a change: what was committed before it, nobody may have noticed.
        while self._is_wanted():
            nudged = self._nudged.is_set()
            self._nudged.clear()
            has_changed = lookout.has_changed()
            if has_changed:
                self._tell_waiters()
            if (nudged or has_changed or not lookout.notices_all) and not self._tell_listeners(lookout):
                self._nudged.set()
            elif self._users:
                lookout.rest(self._nudged, bool(self._listeners))
            else:
                self._nudged.wait(_LINGER)

    def _is_wanted(self) -> bool:
        """Whether to go on; once this is False, the next one who enters starts another thread."""
        with self._changed:
            if not self._closed and (self._users or time.monotonic() - self._left_at < _LINGER):
                return True
            self._thread = None
            return False

    def _pause(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, _PAUSE_AFTER_FAULT)

    # -- events ----------------------------------------------------------------------------------------------------

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        self.enter()
        try:
            with self._database.read() as transaction:
                (last,) = transaction.row(news.LAST_EVENT) or (0,)
        except BaseException:
            self.leave()
            raise
        listener = _Latecomer(tell, kinds, last)
        with self._telling:
            if not self._listeners:
                self._last_event = last
            self._listeners.append(listener)
        lookout = self._lookout
        if lookout is not None:
            lookout.look_soon()

        def unlisten() -> None:
            with self._telling:
                if listener not in self._listeners:
                    return
                self._listeners.remove(listener)
            self.leave()

        return unlisten

    def _tell_listeners(self, lookout: Lookout) -> bool:
        """Tell one batch of events; return whether it was the last one."""
        with self._telling:
            if not self._listeners:
                return True
            last = self._last_event
        rows = lookout.events(last)
        with self._telling:
            for row in rows:
                self._last_event = max(self._last_event, row[0])
                if row[8] == self._database.board:
                    self._tell(row)
            return len(rows) < news.EVENTS_AT_ONCE

    def _tell(self, row: Row) -> None:
        try:
            number, kind, uuid, name, who, token, at, reason, _ = row
            event = JobEvent(EventKind(kind), uuid, name, who, token, moment(at), reason)
        except (ValueError, TypeError, OverflowError):
            # A line that nobody can read must not stop the others.
            return
        for listener in list(self._listeners):
            if number > listener.after:
                listener.hear(event)


class SqlWaiter(Waiter):
    """Looks at the heads of the indexes, and only after something has changed in the database."""

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
