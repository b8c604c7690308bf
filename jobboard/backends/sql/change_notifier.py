"""Waiting for changes of the database, and telling listeners: one notifier for all kinds of sources."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from jobboard.backends.base import Waiter
from jobboard.backends.listeners import Listener
from jobboard.backends.sql import journal_statements
from jobboard.backends.sql.change_source import ChangeSource
from jobboard.backends.sql.database import Database
from jobboard.backends.sql.rows import Row
from jobboard.backends.thread_end import wait_for_thread
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent
from jobboard.validation import moment

logger = logging.getLogger("jobboard.backends.sql")

#: For how many seconds the thread outlives the last waiter, since another one often follows at once.
IDLE_TTL = 1.0
RETRY_DELAY = 0.5
#: Closing the board waits no longer than this for the thread.
STOP_TIMEOUT = 1.5


class _EventListener(Listener):
    """Hears only of events that were written after it began to listen."""

    def __init__(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind], after: int) -> None:
        super().__init__(tell, kinds)
        self.after = after


class ChangeNotifier:
    """One thread that waits for news of other processes while somebody waits or listens.

    Waiters of this process learn of its own commits without the thread; listeners learn of all events by it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self.changes = 0
        #: Called after each change, and when a waiter is to look.
        self.wakers: list[Callable[[], None]] = []
        self._closed = False
        self._users = 0
        self._left_at = 0.0
        self._thread: threading.Thread | None = None
        self._source: ChangeSource | None = None
        self._is_blind = False
        self._listeners: list[_EventListener] = []
        self._last_event = 0
        # Reentrant, because a listener may end itself in a call.
        self._telling = threading.RLock()
        database.process_notifier.add(database.board_name, self._on_own_commit)

    def close(self) -> None:
        self._database.process_notifier.remove(self._on_own_commit)
        with self._lock:
            self._closed = True
            thread = self._thread
        self.notify()
        self._interrupt()
        # It ends by itself once its present request is answered or times out.
        wait_for_thread(thread, STOP_TIMEOUT)

    def _interrupt(self) -> None:
        source = self._source
        if source is not None:
            source.interrupt()

    # -- waiting ---------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Count a waiter or a listener; the first one starts the thread."""
        with self._lock:
            self.check_open()
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="jobboard-sql", daemon=True)
                thread.start()
                self._thread = thread
            self._users += 1
            is_first = self._users == 1
            if is_first:
                self._changed.notify_all()
        if is_first:
            self._interrupt()

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            self._left_at = time.monotonic()

    def wait_for_change(self, seen: int, timeout: float | None, is_interrupted: Callable[[], bool]) -> None:
        with self._lock:
            self._changed.wait_for(lambda: self._closed or self.changes != seen or is_interrupted(), timeout)
            self.check_open()

    def notify(self) -> None:
        with self._lock:
            self._changed.notify_all()
        for wake in list(self.wakers):
            wake()

    def check_open(self) -> None:
        if self._closed:
            raise BoardUnavailable("the board was closed while somebody waited on it")

    def _on_own_commit(self, is_awaited: bool) -> None:
        if self._users:
            self._notify_waiters()
            # Nobody waits for claims and the like, and listeners to rare events need no read for them.
            source = self._source
            hears_it = is_awaited and source is not None and source.hears_own
            if self._wants_common() or (is_awaited and self._listeners and not hears_it):
                self._interrupt()

    def _notify_waiters(self) -> None:
        with self._lock:
            self.changes += 1
        self.notify()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._is_wanted():
            try:
                source = self._database.change_source()
                try:
                    self._source = source
                    self._follow(source)
                finally:
                    self._source = None
                    source.close()
            except Exception as error:
                # After any fault: without this thread nothing would wake the waiters.
                level = logging.DEBUG if self._is_blind else logging.WARNING
                logger.log(level, "board %s: can't see what other processes do: %s", self._database.board_name, error)
                self._is_blind = True
                # Waiters read the board themselves, and meet the fault or a change.
                self._notify_waiters()
                self._pause(RETRY_DELAY, lambda: self._closed)

    def _follow(self, source: ChangeSource) -> None:
        if self._is_blind:
            self._follow_shorter_journal(source)
        while self._is_wanted():
            if not self._users:
                self._pause(IDLE_TTL, lambda: self._closed or self._users > 0)
                continue
            has_changed = source.wait_for_news(self._wants_common())
            self._is_blind = False
            if has_changed:
                self._notify_waiters()
            if not self._notify_listeners(source):
                source.interrupt()
            if self._is_blind:
                return

    def _is_wanted(self) -> bool:
        """Whether to go on; once this is False, the next one to enter starts another thread."""
        with self._lock:
            if self._thread is not threading.current_thread():
                # Somebody entered, and started another one, after this one was not wanted any more.
                return False
            if not self._closed and (self._users or time.monotonic() - self._left_at < IDLE_TTL):
                return True
            self._thread = None
            return False

    def _pause(self, seconds: float, is_over: Callable[[], bool]) -> None:
        with self._lock:
            self._changed.wait_for(is_over, seconds)

    # -- events ----------------------------------------------------------------------------------------------------

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        self.enter()
        try:
            with self._database.read() as transaction:
                (last,) = transaction.row(journal_statements.LAST_EVENT) or (0,)
        except BaseException:
            self.leave()
            raise
        listener = _EventListener(tell, kinds, last)
        with self._telling:
            if not self._listeners:
                self._last_event = last
            self._listeners.append(listener)
        # The thread may be waiting as it does without listeners.
        self._interrupt()

        def unlisten() -> None:
            with self._telling:
                if listener not in self._listeners:
                    return
                self._listeners.remove(listener)
            self.leave()

        return unlisten

    def _notify_listeners(self, source: ChangeSource) -> bool:
        """Tell one batch of events; return whether it was the last one."""
        with self._telling:
            if not self._listeners:
                return True
            last = self._last_event
        rows, read, is_end = source.lines(last, self._wants_common)
        # If the end was passed, the data may be those of a backup: another source follows them.
        self._is_blind = read < last
        with self._telling:
            # A conductor listens to what is rare, and reads the lines of all its own claims: those are left out first.
            wanted = {kind.value for listener in self._listeners for kind in listener.kinds}
            self._last_event = max(self._last_event, read)
            for row in rows:
                if row[1] in wanted and row[6] == self._database.board:
                    self._tell(row)
            return is_end

    def _follow_shorter_journal(self, source: ChangeSource) -> None:
        """Go on at the journal's end if that was passed: a replica or a backup may not have had its last lines."""
        [(last,)] = source.rows(journal_statements.LAST_EVENT)
        with self._telling:
            self._last_event = min(self._last_event, last)
            for listener in self._listeners:
                listener.after = min(listener.after, last)

    def _wants_common(self) -> bool:
        # Without the lock: it is held during a listener's call, which may wait for another thread's commit.
        listeners = list(self._listeners)
        return any(not listener.kinds.isdisjoint(journal_statements.COMMON_KINDS) for listener in listeners)

    def _tell(self, row: Row) -> None:
        try:
            number, kind, who, token, at, reason, _, uuid, name = row
            event = JobEvent(EventKind(kind), uuid, name, who, token, moment(at), reason)
        except (ValueError, TypeError, OverflowError):
            # An unreadable line must not keep the others back.
            return
        for listener in list(self._listeners):
            if number > listener.after:
                listener.hear(event)


class SqlWaiter(Waiter):
    """Reads the heads of the indexes, and only after something has changed in the database."""

    def __init__(self, change_notifier: ChangeNotifier, ready_in: Callable[[], float | None]) -> None:
        self._change_notifier = change_notifier
        self._ready_in = ready_in
        self._seen = -1
        self._interrupted = False
        self._entered = True
        change_notifier.enter()

    def ready_in(self) -> float | None:
        self._seen = self._change_notifier.changes
        return self._ready_in()

    def wait(self, timeout: float | None) -> None:
        self._change_notifier.wait_for_change(self._seen, timeout, lambda: self._interrupted)
        self._interrupted = False

    def interrupt(self) -> None:
        self._interrupted = True
        self._change_notifier.notify()

    def close(self) -> None:
        if self._entered:
            self._entered = False
            self._change_notifier.leave()
