"""Waiting and listening: one thread of the client follows the log while anybody wants to know."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kazoo.client import KazooState

from jobboard.backends.base import Waiter
from jobboard.backends.listeners import Listener
from jobboard.backends.timelimit import time_limit
from jobboard.backends.waiter import ConditionWaiter
from jobboard.backends.zookeeper.changes import Logged
from jobboard.backends.zookeeper.client import Client
from jobboard.backends.zookeeper.follower import Follower
from jobboard.events import EventKind, JobEvent
from jobboard.validation import moment

#: For how many seconds a close waits in all.
_CLOSE_TIMEOUT = 3.0


class Watching(Client):
    """What stays idle sends nothing: the server rings when the next change is there."""

    def _assemble(self) -> None:
        super()._assemble()
        self._waiters: set[BoardWaiter] = set()
        self._listeners: list[Listener] = []
        self._telling = threading.RLock()
        self._follower = Follower(
            self._line, self._layout, self._tracker, self._sessions, f"jobboard-zookeeper-{self.board}", self._tell_lost
        )

    def close(self) -> None:
        self._is_open = False
        with self._listing.lock:
            waiters = list(self._waiters)
        for waiter in waiters:
            waiter.cut_off()
        with self._telling:
            self._listeners.clear()
        with time_limit(_CLOSE_TIMEOUT):
            self._follower.stop()
            self._tracker.tell = None
            super().close()

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        self._begin()
        waiter = BoardWaiter(self, names)
        with self._listing.lock:
            self._waiters.add(waiter)
            self._listing.waiters.add(waiter)
        self._follow()
        return waiter

    def leave(self, waiter: BoardWaiter) -> None:
        """Learn that somebody waits no more."""
        with self._listing.lock:
            self._waiters.discard(waiter)
            self._listing.waiters.discard(waiter)
        self._follow()

    def _follow(self) -> None:
        """See to it that the log is followed while somebody wants to know."""
        if self._is_open:
            self._follower.want(len(self._waiters) + len(self._listeners))

    def look(self, names: frozenset[str] | None, *, is_first: bool) -> float | None:
        """Return the seconds until a job of these names can be claimed."""
        self._begin()
        if is_first or not self._follower.is_current:
            # What woke a waiter is listed already; whoever claims it makes sure that it is so still.
            if not is_first and self._is_any_ready(names):
                return 0.0
            self._tracker.refresh()
            self._follow()
        now = self._settle_all()
        with self._listing.lock:
            due = self._listing.next_ready(names, now)
        return None if due is None else max(0.0, due - now)

    def _is_any_ready(self, names: frozenset[str] | None) -> bool:
        with self._listing.lock:
            return bool(self._listing.ready(names, 1))

    def clock(self) -> float:
        return self._clock.now()

    # -- events ----------------------------------------------------------------------------------------------------

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        self._begin()
        self._tracker.refresh()
        listener = Listener(tell, kinds)
        with self._telling:
            self._listeners.append(listener)
            self._tracker.tell = self._tell
        self._follow()

        def end() -> None:
            with self._telling:
                if listener in self._listeners:
                    self._listeners.remove(listener)
                if not self._listeners:
                    self._tracker.tell = None
            self._follow()

        return end

    def _tell(self, change: Logged) -> None:
        for event in change.events():
            self._hand_out(event)

    def _hand_out(self, event: JobEvent) -> None:
        with self._telling:
            for listener in list(self._listeners):
                listener.hear(event)

    # -- the connection --------------------------------------------------------------------------------------------

    def _state_changed(self, state: str) -> None:
        super()._state_changed(state)
        if state != KazooState.CONNECTED:
            # Whoever waits learns at once that there is no board to wait on.
            threading.Thread(target=self._wake_all, name="jobboard-zookeeper-wake", daemon=True).start()
        self._follower.ring()

    def _wake_all(self) -> None:
        with self._listing.lock:
            for waiter in self._waiters:
                waiter.wake()

    def _tell_lost(self, presence: str) -> None:
        """Tell who listens here that the claims of a session that ended are lost, before any server could."""
        at = moment(self._clock.now())
        for record in self._editor.held_under(presence):
            reason = f"the session of '{record.owner}' ended"
            self._hand_out(
                JobEvent(EventKind.EXPIRED, record.uuid, record.name, record.owner, record.token, at, reason)
            )


class BoardWaiter(ConditionWaiter):
    """Stirred by the listing, which the follower keeps up to date."""

    def __init__(self, client: Watching, names: frozenset[str] | None) -> None:
        super().__init__(names, client.clock)
        self._client = client
        self._has_looked = False

    def ready_in(self) -> float | None:
        self._begin_to_look()
        due = self._client.look(self._names, is_first=not self._has_looked)
        self._has_looked = True
        if due is not None:
            self._expect(self._clock() + due)
        return due

    def close(self) -> None:
        self._client.leave(self)
