"""The thread that keeps a client in step with the board while somebody waits or listens."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import KazooException

from jobboard.backends.timelimit import seconds_left
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.line import Line
from jobboard.backends.zookeeper.requests import CHILD_WATCH, DATA_WATCH
from jobboard.backends.zookeeper.sessions import Sessions
from jobboard.backends.zookeeper.tracker import Tracker
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.zookeeper")

_PAUSE = 0.1
_STOP_TIMEOUT = 1.0


class Follower:
    """Has the server ring when the next change is there, and when a client comes or goes; then catches up.

    A change costs two small requests, whatever the backlog; a client that nobody waits on costs nothing.

    :param lost: is told of this client's presence when its session has ended, as soon as that can be known.
    """

    def __init__(
        self,
        line: Line,
        layout: Layout,
        tracker: Tracker,
        sessions: Sessions,
        name: str,
        lost: Callable[[str], None],
    ) -> None:
        self._line, self._layout, self._tracker, self._sessions = line, layout, tracker, sessions
        self._name, self._lost = name, lost
        self._changed = threading.Condition()
        #: Whoever else runs is to end.
        self._thread: threading.Thread | None = None
        self._wanted = 0
        self._rung = False
        #: The path whose creation rings, and whether the coming and going of clients does.
        self._armed: str | None = None
        self._is_watching_sessions = False

    @property
    def is_current(self) -> bool:
        """Whether everything that the server has told of is known."""
        return self._armed is not None and not self._rung

    def want(self, count: int) -> None:
        """Follow for so many; the thread begins with the first, and sleeps without any."""
        with self._changed:
            self._wanted = count
            if count and self._thread is None:
                # What was lost before anybody listened is no news.
                self._sessions.take_lost()
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            if count and self._armed is None:
                self._rung = True
                self._changed.notify_all()

    def ring(self, _event: Any = None) -> None:
        """Learn that something has changed: a watch, or the connection. Called from kazoo's threads."""
        with self._changed:
            self._rung = True
            self._changed.notify_all()

    def stop(self) -> None:
        """End the thread; one that waits for a server's answer is left to its end."""
        with self._changed:
            thread, self._thread = self._thread, None
            self._wanted, self._rung = 0, False
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(seconds_left(_STOP_TIMEOUT))
        self._disarm()

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._wait():
            try:
                self._notice_lost_session()
                if self._line.connected and self._wanted:
                    self._follow()
            except (BoardUnavailable, KazooException) as error:
                logger.debug("%s: can't follow for now: %s", self._name, error)
                self._pause()
            except Exception:
                # Without this thread nobody would wake any more, so it outlives any fault.
                logger.exception("%s met a fault", self._name)
                self._pause()

    def _pause(self) -> None:
        with self._changed:
            self._rung = True
            if self._is_wanted():
                self._changed.wait(_PAUSE)

    def _wait(self) -> bool:
        with self._changed:
            while self._is_wanted() and not self._rung:
                self._changed.wait(self._until_lost())
                if self._until_lost() == 0.0:
                    break
            if not self._is_wanted():
                return False
            self._rung = False
            return True

    def _is_wanted(self) -> bool:
        return self._thread is threading.current_thread()

    def _until_lost(self) -> float | None:
        """Return the seconds until the present session must be given up, since nothing was heard for so long."""
        silent = self._line.suspended_for
        if silent is None or self._sessions.present is None:
            return None
        try:
            return max(0.0, self._line.session_timeout - silent)
        except BoardUnavailable:
            return None

    def _notice_lost_session(self) -> None:
        """Tell of claims that went with their session: the server said so, or it must have ended by now."""
        if self._until_lost() == 0.0:
            self._sessions.give_up()
        else:
            self._sessions.check_session()
        for presence in self._sessions.take_lost():
            self._lost(presence)

    def _follow(self) -> None:
        self._tracker.refresh()
        if not self._is_watching_sessions:
            self._watch_sessions()
            # Who went away just before may have left claims that nobody has heard of yet.
            self._wake_those_who_look()
        path = self._tracker.next_name
        if self._line.call("exists", path, watch=self._next_came) is not None:
            # It came meanwhile; a watch on what is there would only ring when it is deleted.
            self._line.unwatch(path, self._next_came, DATA_WATCH)
            self.ring()
            return
        with self._changed:
            self._armed = path

    def _watch_sessions(self) -> None:
        # Somebody may come or go before the answer is here, and then there is no watch any more.
        self._is_watching_sessions = True
        try:
            names, stat = self._line.call(
                "get_children", self._layout.sessions, watch=self._sessions_changed, include_data=True
            )
        except BaseException:
            self._is_watching_sessions = False
            raise
        self._sessions.saw(names, stat)

    def _next_came(self, event: Any) -> None:
        self._tracker.expect_changes()
        with self._changed:
            self._armed = None
        self.ring(event)

    def _sessions_changed(self, event: Any) -> None:
        self._is_watching_sessions = False
        self.ring(event)

    def _wake_those_who_look(self) -> None:
        listing = self._tracker.listing
        with listing.lock:
            for presence in listing.by_presence:
                if not self._sessions.is_present(presence):
                    listing.stir(None, 0.0)
                    return

    def _disarm(self) -> None:
        """Take the watches back."""
        with self._changed:
            armed, self._armed = self._armed, None
        if armed is not None:
            self._line.unwatch(armed, self._next_came, DATA_WATCH)
        if self._is_watching_sessions:
            self._is_watching_sessions = False
            self._line.unwatch(self._layout.sessions, self._sessions_changed, CHILD_WATCH)
