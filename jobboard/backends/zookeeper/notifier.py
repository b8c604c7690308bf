"""Waiting and listening: one thread of the client follows the log while there are waiters or listeners."""

from __future__ import annotations

import threading
from collections.abc import Callable

from kazoo.client import KazooState

from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.listeners import Listener
from jobboard.backends.waiter import ConditionWaiter
from jobboard.backends.zookeeper.change_log import ChangeLogReader
from jobboard.backends.zookeeper.changes import LoggedChange
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.read_modify_write import HeldJobs
from jobboard.backends.zookeeper.sessions import Sessions
from jobboard.backends.zookeeper.upkeep import Upkeep
from jobboard.backends.zookeeper.watch_thread import WatchThread
from jobboard.events import EventKind, JobEvent
from jobboard.validation import moment


class ChangeNotifier:
    """Has waiters and listeners; an idle one sends nothing, since the server tells when the next change exists.

    :param name: the board's, for the name of the thread.
    """

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        clock: ServerClock,
        sessions: Sessions,
        listing: Listing,
        change_log: ChangeLogReader,
        held: HeldJobs,
        upkeep: Upkeep,
        name: str,
    ) -> None:
        self._connection, self._sessions, self._listing, self._change_log = connection, sessions, listing, change_log
        self._clock, self._held, self._upkeep = clock, held, upkeep
        self._waiters: set[BoardWaiter] = set()
        self._listeners: list[Listener] = []
        self._telling = threading.RLock()
        self.watch_thread = WatchThread(
            connection,
            layout,
            sessions,
            listing,
            change_log,
            f"jobboard-zookeeper-{name}",
            self._tell_lost,
            lambda: len(self._waiters) + len(self._listeners),
            self._are_all_awake,
        )

    def close_waiters(self) -> None:
        with self._listing.lock:
            waiters = list(self._waiters)
        for waiter in waiters:
            waiter.board_closed()
        with self._telling:
            self._listeners.clear()

    def stop(self) -> None:
        self.watch_thread.stop()
        self._change_log.on_change = None

    def _follow(self) -> None:
        """Follow the log while there are waiters or listeners."""
        if self._connection.is_open:
            self.watch_thread.follow()

    # -- waiters ---------------------------------------------------------------------------------------------------

    def waiter(self, names: frozenset[str] | None) -> BoardWaiter:
        waiter = BoardWaiter(self, names, self._clock.now)
        with self._listing.lock:
            self._waiters.add(waiter)
            self._listing.waiters.add(waiter)
        try:
            self._follow()
        except BaseException:
            # No thread could be started.
            waiter.close()
            raise
        return waiter

    def remove(self, waiter: BoardWaiter) -> None:
        with self._listing.lock:
            self._waiters.discard(waiter)
            self._listing.waiters.discard(waiter)
        self._follow()

    def ready_in(self, names: frozenset[str] | None, *, is_first: bool) -> float | None:
        """Return the seconds until a job of these names can be claimed.

        :param is_first: whether the waiter has never asked before.
        """
        self._sessions.begin()
        if is_first:
            self._change_log.refresh()
            self._follow()
        elif not self.watch_thread.is_current:
            # What woke a waiter is listed already; the transaction that claims it checks that it is still so.
            if self._is_any_ready(names):
                return 0.0
            self.watch_thread.watch_next()
        now = self._upkeep.expire_and_promote()
        with self._listing.lock:
            due = self._listing.next_ready(names, now)
        return None if due is None else max(0.0, due - now)

    def _are_all_awake(self) -> bool:
        """Whether there are waiters, and each knows that there is something for it."""
        with self._listing.lock:
            return bool(self._waiters) and not any(waiter.is_asleep for waiter in self._waiters)

    def _is_any_ready(self, names: frozenset[str] | None) -> bool:
        with self._listing.lock:
            return bool(self._listing.ready(names, 1))

    # -- listeners -------------------------------------------------------------------------------------------------

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        self._change_log.refresh()
        listener = Listener(tell, kinds)
        with self._telling:
            self._listeners.append(listener)
            self._change_log.on_change = self._tell_change

        def end() -> None:
            with self._telling:
                if listener in self._listeners:
                    self._listeners.remove(listener)
                if not self._listeners:
                    self._change_log.on_change = None
            self._follow()

        try:
            self._follow()
        except BaseException:
            # No thread could be started.
            end()
            raise
        return end

    def _tell_change(self, change: LoggedChange) -> None:
        for event in change.events():
            self._tell(event)

    def _tell(self, event: JobEvent) -> None:
        with self._telling:
            for listener in list(self._listeners):
                listener.hear(event)

    # -- the connection --------------------------------------------------------------------------------------------

    def state_changed(self, state: str) -> None:
        """Learn from kazoo's thread how the connection is; must not block."""
        self.watch_thread.notify()
        if state != KazooState.CONNECTED:
            # Waiters learn at once that there is no board to wait on.
            threading.Thread(target=self._notify_all, name="jobboard-zookeeper-wake", daemon=True).start()

    def _notify_all(self) -> None:
        with self._listing.lock:
            for waiter in self._waiters:
                waiter.notify()

    def _tell_lost(self, presence: str) -> None:
        """Tell listeners here that the claims of a session that ended are lost, before any server could."""
        at = moment(self._clock.now())
        for job in self._held.under(presence):
            reason = f"the session of '{job.owner}' ended"
            self._tell(JobEvent(EventKind.EXPIRED, job.uuid, job.name, job.owner, job.token, at, reason))


class BoardWaiter(ConditionWaiter):
    """Is notified by the listing, which the watch thread keeps up to date."""

    def __init__(self, notifier: ChangeNotifier, names: frozenset[str] | None, clock: Callable[[], float]) -> None:
        super().__init__(names, clock)
        self._notifier = notifier
        self._has_looked = False

    def ready_in(self) -> float | None:
        self._begin_to_look()
        due = self._notifier.ready_in(self._names, is_first=not self._has_looked)
        self._has_looked = True
        if due is not None:
            self._expect(self._clock() + due)
        return due

    @property
    def is_asleep(self) -> bool:
        """Whether it needs to learn of changes, since it knows of nothing that is ready."""
        return self._earliest > self._clock()

    def close(self) -> None:
        self._notifier.remove(self)
