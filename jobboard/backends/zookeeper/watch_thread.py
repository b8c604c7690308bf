"""The thread that keeps a client in step with the board while there are waiters or listeners."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import KazooException

from jobboard.backends.thread_end import wait_for_thread
from jobboard.backends.timelimit import seconds_left
from jobboard.backends.zookeeper.change_log import ChangeLogReader
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.errors import from_kazoo
from jobboard.backends.zookeeper.handler import runs_at_once
from jobboard.backends.zookeeper.kazoo_internals import CHILD_WATCH, DATA_WATCH
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.sessions import Sessions
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.zookeeper")

RETRY_DELAY = 0.1
STOP_TIMEOUT = 1.0
#: For how many seconds after it was notified, a waiter is expected to claim and to wait again.
HEAD_START = 0.02


class WatchThread:
    """Watches for the next line of the log, and for clients that come and go; catches up when the server reports one.

    A change costs two small requests, whatever the backlog, and one of this client's own most often one;
    without waiters and listeners it costs nothing.

    :param on_lost: is called with this client's presence when its session has ended, as soon as that can be known.
    :param followers: returns how many waiters and listeners there are.
    :param are_all_awake: returns whether there are waiters, and each knows that there is something for it.
    """

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        sessions: Sessions,
        listing: Listing,
        change_log: ChangeLogReader,
        name: str,
        on_lost: Callable[[str], None],
        followers: Callable[[], int],
        are_all_awake: Callable[[], bool],
    ) -> None:
        self._connection, self._layout, self._sessions = connection, layout, sessions
        self._listing, self._change_log = listing, change_log
        self._name, self._on_lost, self._are_all_awake = name, on_lost, are_all_awake
        self._count_followers = followers
        #: Whether it could not follow the last time, though it was connected.
        self._has_failed = False
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        #: The present thread; any other one ends.
        self._thread: threading.Thread | None = None
        self._followers = 0
        self._is_notified = False
        #: The path whose creation is watched, and whether the coming and going of clients is.
        self._watched: str | None = None
        #: The path whose creation the server has reported last, None at first and after a lost connection; and how many
        #: it has reported.
        self._reported: str | None = None
        self._reports = 0
        self._is_watching_sessions = False

    @property
    def is_current(self) -> bool:
        """Whether everything that the server has reported is known."""
        return self._is_watching and not self._is_notified

    @property
    def _is_watching(self) -> bool:
        return self._watched is not None and self._is_watching_sessions

    def follow(self) -> None:
        """Follow for waiters and listeners; the thread begins with the first, and sleeps without any."""
        with self._lock:
            # Counted here: what another thread counted before a waiter came must not be what is known last.
            count = self._followers = self._count_followers()
            if count and self._thread is None:
                # What was lost before there were listeners is no news.
                self._sessions.take_lost()
                thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                thread.start()
                self._thread = thread
            if count and self._watched is None:
                self.notify()

    def notify(self, _event: Any = None) -> None:
        """Learn that something has changed: a watch, or the connection. Called from kazoo's threads."""
        with self._lock:
            self._is_notified = True
            self._changed.notify_all()

    def stop(self) -> None:
        """End the thread; one that waits for a server's answer ends by itself after it."""
        with self._lock:
            thread, self._thread = self._thread, None
            self._followers, self._is_notified = 0, False
            self._changed.notify_all()
        wait_for_thread(thread, seconds_left(STOP_TIMEOUT))
        self._unwatch()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._wait():
            try:
                self._report_lost_session()
                if self._connection.connected and self._followers:
                    self._follow()
                    self._has_failed = False
            except (BoardUnavailable, KazooException) as error:
                # Waiters learn of no change meanwhile. Calls raise a lost connection themselves.
                is_known = self._has_failed or not self._connection.connected
                logger.log(
                    logging.DEBUG if is_known else logging.WARNING, "%s: can't follow for now: %s", self._name, error
                )
                self._has_failed = self._has_failed or not is_known
                self._delay_retry()
            except Exception:
                # Without this thread no waiter would wake any more, so it goes on after any fault.
                logger.exception("%s met a fault", self._name)
                self._delay_retry()

    def _delay_retry(self) -> None:
        with self._lock:
            self._is_notified = True
            if self._is_running():
                self._changed.wait(RETRY_DELAY)

    def _wait(self) -> bool:
        """Wait until there is something to do; returns False if the thread is to end."""
        with self._lock:
            while self._is_running() and not self._is_notified:
                self._changed.wait(self._until_lost())
                if self._until_lost() == 0.0:
                    break
            if not self._is_running():
                return False
            self._is_notified = False
            return True

    def _is_running(self) -> bool:
        return self._thread is threading.current_thread()

    def _until_lost(self) -> float | None:
        """Return the seconds until the present session must be given up, since the server has been silent."""
        silent = self._connection.suspended_for
        if silent is None or self._sessions.present is None:
            return None
        try:
            return max(0.0, self._connection.session_timeout - silent)
        except BoardUnavailable:
            return None

    def _report_lost_session(self) -> None:
        """Report the claims that went with their session: the server said so, or it must have ended by now."""
        if self._until_lost() == 0.0:
            self._sessions.give_up()
        else:
            self._sessions.check_session()
        for presence in self._sessions.take_lost():
            self._on_lost(presence)

    def _follow(self) -> None:
        # A change of this client's own is most often known when the server reports it.
        if self._reported in (None, self._change_log.next_path) or not self._change_log.is_in_step:
            self._change_log.refresh_as_asked()
        if not self._is_left_to_waiter():
            self._watch_next()

    def _is_left_to_waiter(self) -> bool:
        """Let notified waiters go first: most often one claims, and sets the watch before it waits again."""
        if not self._are_all_awake():
            return False
        with self._lock:
            return self._changed.wait_for(
                lambda: self._is_watching or self._is_notified or not self._is_running(), HEAD_START
            )

    def watch_next(self) -> None:
        """Catch up with the board, and see that the server reports the next change; for a waiter's own thread."""
        try:
            syncing = self._connection.catch_up()
            self._watch_next()
            if syncing is not None:
                self._connection.answer(syncing)
        except BaseException as error:
            # A thread that waits all the same must be woken.
            self.notify()
            if isinstance(error, KazooException):
                raise from_kazoo(self._connection.where, error) from None
            raise

    def _watch_next(self) -> None:
        if not self._is_watching_sessions:
            self._watch_sessions()
            # A client that went away just before may have left claims that no waiter knows of yet.
            self._notify_of_left_claims()
        if not self._change_log.is_in_step:
            self._change_log.refresh()
        path, reports = self._change_log.next_path, self._reports
        if self._connection.call("exists", path, watch=self._next_exists) is not None:
            # It was created meanwhile; a watch on it would only report its deletion.
            self._connection.unwatch(path, self._next_exists, DATA_WATCH)
            self._change_log.refresh()
            self.notify()
            return
        with self._lock:
            # Before this thread had its turn, the server may have reported it, or the connection may have broken.
            if self._reports == reports:
                self._watched = path
            self._changed.notify_all()

    def _watch_sessions(self) -> None:
        # A client may come or go before the answer is here, and then there is no watch any more.
        self._is_watching_sessions = True
        try:
            names, stat = self._connection.call(
                "get_children", self._layout.sessions, watch=self._sessions_changed, include_data=True
            )
        except BaseException:
            self._is_watching_sessions = False
            raise
        self._sessions.learn(names, stat)

    @runs_at_once
    def _next_exists(self, event: Any) -> None:
        if self._followers and event.path == self._change_log.next_path:
            self._change_log.expect_changes()
            self._change_log.ask_ahead()
        with self._lock:
            self._watched, self._reported = None, event.path
            self._reports += 1
        self.notify(event)

    def _sessions_changed(self, event: Any) -> None:
        self._is_watching_sessions = False
        self.notify(event)

    def _notify_of_left_claims(self) -> None:
        with self._listing.lock:
            for presence in self._listing.by_presence:
                if not self._sessions.is_present(presence):
                    self._listing.notify(None, 0.0)
                    return

    def _unwatch(self) -> None:
        """Take the watches back."""
        with self._lock:
            watched, self._watched = self._watched, None
        if watched is not None:
            self._connection.unwatch(watched, self._next_exists, DATA_WATCH)
        if self._is_watching_sessions:
            self._is_watching_sessions = False
            self._connection.unwatch(self._layout.sessions, self._sessions_changed, CHILD_WATCH)
