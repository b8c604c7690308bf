"""Waiting and listening: one thread of the client follows the log while anybody wants to know."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

from kazoo.client import KazooState

from jobboard.arguments import moment
from jobboard.backend import Waiter
from jobboard.backends.zookeeper.changes import Logged
from jobboard.backends.zookeeper.client import Client
from jobboard.backends.zookeeper.follower import Follower
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent

logger = logging.getLogger("jobboard.zookeeper")

_Listener = tuple[frozenset[EventKind], Callable[[JobEvent], None]]


class Watching(Client):
    """What stays idle sends nothing: the server rings when the next change is there."""

    def _assemble(self) -> None:
        super()._assemble()
        self._waiters: set[BoardWaiter] = set()
        self._listeners: dict[object, _Listener] = {}
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
        self._follower.stop()
        self._tracker.tell = None
        super().close()

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        self._begin()
        waiter = BoardWaiter(self, names)
        with self._listing.lock:
            self._waiters.add(waiter)
            self._listing.waiters.add(waiter)
        self._follower.want(len(self._waiters) + len(self._listeners))
        return waiter

    def leave(self, waiter: BoardWaiter) -> None:
        """Learn that somebody waits no more."""
        with self._listing.lock:
            self._waiters.discard(waiter)
            self._listing.waiters.discard(waiter)
        self._follower.want(len(self._waiters) + len(self._listeners))

    def look(self, names: frozenset[str] | None, *, is_first: bool) -> float | None:
        """Return the seconds until a job of these names can be claimed."""
        self._begin()
        if is_first or not self._follower.is_current:
            # What woke a waiter is listed already; whoever claims it makes sure that it is so still.
            if not is_first and self._is_any_ready(names):
                return 0.0
            self._tracker.refresh()
            self._follower.want(len(self._waiters) + len(self._listeners))
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
        listener = object()
        with self._telling:
            self._listeners[listener] = (kinds, tell)
            self._tracker.tell = self._tell
        self._follower.want(len(self._waiters) + len(self._listeners))

        def end() -> None:
            with self._telling:
                self._listeners.pop(listener, None)
                if not self._listeners:
                    self._tracker.tell = None
            self._follower.want(len(self._waiters) + len(self._listeners))

        return end

    def _tell(self, change: Logged) -> None:
        for event in change.events():
            self._hand_out(event)

    def _hand_out(self, event: JobEvent) -> None:
        with self._telling:
            listeners = list(self._listeners.values())
            for kinds, tell in listeners:
                if event.kind in kinds:
                    try:
                        tell(event)
                    except Exception:
                        # A listener's fault must not keep the others from hearing.
                        logger.exception("a listener failed on %s", event.kind)

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
            reason = f"the session of {record.owner!r} ended"
            self._hand_out(
                JobEvent(EventKind.EXPIRED, record.uuid, record.name, record.owner, record.token, at, reason)
            )


class BoardWaiter(Waiter):
    """Sleeps until the moment at which a job may be ready; the listing tells of earlier ones."""

    def __init__(self, client: Watching, names: frozenset[str] | None) -> None:
        self._client = client
        self._names = names
        self._changed = threading.Condition()
        #: No job is ready before this moment; -inf says that nobody has asked yet.
        self._earliest = -math.inf
        self._has_looked = False
        self._interrupted = False
        self._cut_off = False

    def ready_in(self) -> float | None:
        self._check()
        with self._changed:
            self._earliest = math.inf
        due = self._client.look(self._names, is_first=not self._has_looked)
        self._has_looked = True
        if due is not None:
            with self._changed:
                self._earliest = min(self._earliest, self._client.clock() + due)
        return due

    def wait(self, timeout: float | None) -> None:
        # The server's clock may be set, or another server may lead, while somebody waits.
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        with self._changed:
            while not self._interrupted:
                self._check()
                left = min(self._earliest - self._client.clock(), deadline - time.monotonic())
                if left <= 0:
                    return
                self._changed.wait(min(left, threading.TIMEOUT_MAX) if left < math.inf else None)
            self._check()
            self._interrupted = False

    def _check(self) -> None:
        if self._cut_off:
            raise BoardUnavailable("the board was closed while somebody waited on it")

    def stir(self, name: str | None, at: float) -> None:
        """Learn that a job of this name (None: any) may be ready at that moment."""
        if name is None or self._names is None or name in self._names:
            with self._changed:
                if at < self._earliest:
                    self._earliest = at
                    self._changed.notify_all()

    def wake(self) -> None:
        with self._changed:
            self._earliest = -math.inf
            self._changed.notify_all()

    def cut_off(self) -> None:
        """Learn that the client was closed."""
        with self._changed:
            self._cut_off = True
            self._changed.notify_all()

    def interrupt(self) -> None:
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def close(self) -> None:
        self._client.leave(self)
