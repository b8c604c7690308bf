"""The waiters and the listeners of one client, which share one watch."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence

from jobboard.backends.base import Waiter
from jobboard.backends.etcd.arrivals import Arrivals
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.events import Event, unpack_events
from jobboard.backends.etcd.expiry import LostLeases
from jobboard.backends.etcd.ready_queue import ReadyQueue
from jobboard.backends.etcd.subscriber import KeyChange, Subscriber
from jobboard.backends.etcd.worker import STOP_TIMEOUT, Worker
from jobboard.backends.listeners import Listener
from jobboard.backends.timelimit import seconds_left
from jobboard.backends.waiter import ConditionWaiter
from jobboard.events import EventKind, JobEvent

logger = logging.getLogger("jobboard.etcd")

#: For how many seconds a waiter sleeps at most before it looks again.
_MAX_WAIT = 10.0

#: How many requests learn the server's time well enough: each halves the part of a second that is in doubt.
_MAX_PROBES = 8


class Subscriptions:
    """Opens the watch when the first of them waits or listens; it stays open until the client closes."""

    def __init__(
        self,
        connection: Connection,
        worker: Worker,
        queue: ReadyQueue,
        lost_leases: LostLeases,
        arrivals: Arrivals,
    ) -> None:
        self._connection = connection
        self._http = connection.http
        self._keys = connection.keys
        self._worker = worker
        self._queue = queue
        self._lost_leases = lost_leases
        self._arrivals = arrivals
        self._lock = threading.Lock()
        self._subscriber: Subscriber | None = None
        self._waiters: set[EtcdWaiter] = set()
        self._listeners: list[Listener] = []

    def close(self) -> None:
        """End the watch, and wake every waiter; to be called when the connection counts as closed."""
        with self._lock:
            subscriber, self._subscriber = self._subscriber, None
            waiters, self._waiters = list(self._waiters), set()
            self._listeners = []
        for waiter in waiters:
            waiter.board_closed()
        if subscriber is not None:
            subscriber.close(STOP_TIMEOUT)

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        self._connection.check_open()
        waiter = EtcdWaiter(self, self._queue, self._connection, self._arrivals, names)
        with self._lock:
            self._waiters.add(waiter)
        return waiter

    def leave(self, waiter: EtcdWaiter) -> None:
        """Forget a waiter."""
        with self._lock:
            self._waiters.discard(waiter)

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        listener = Listener(tell, kinds)
        self.subscribe()
        with self._lock:
            self._listeners.append(listener)

        def end() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return end

    def subscribe(self) -> None:
        """Return once nothing that happens from then on is missed."""
        with self._lock:
            self._connection.check_open()
            if self._subscriber is None:
                self._subscriber = Subscriber(self._http, self._keys.watched, self._on_changes, self._on_gap)
                self._worker.soon(self._tune_clock)
            subscriber = self._subscriber
        subscriber.wait_until_subscribed(seconds_left(self._http.timeout))

    # -- in the worker's thread ------------------------------------------------------------------------------------

    def _tune_clock(self, probes: int = _MAX_PROBES) -> None:
        """Learn the server's time, by a few requests at the moments at which their replies tell most."""
        wait = self._http.clock.probe_in()
        if wait is not None and probes > 0:
            self._worker.at(time.monotonic() + wait, lambda: self._probe(probes))

    def _probe(self, probes: int) -> None:
        self._http.request_time()
        with self._lock:
            waiters = list(self._waiters)
        for waiter in waiters:
            waiter.clock_changed()
        self._tune_clock(probes - 1)

    # -- in the subscriber's thread --------------------------------------------------------------------------------

    def _on_changes(self, revision: int, changes: Sequence[KeyChange]) -> None:
        written = [kv for kv, is_gone in changes if not is_gone and kv.key.startswith(self._keys.events)]
        if not written:
            # Clients write an event whenever they delete a session: these sessions ended with their leases.
            for lease in [self._keys.lease_of(kv.key) for kv, is_gone in changes if is_gone]:
                if lease is not None:
                    self._lost_leases.handle(lease)
        events = [event for kv in written for event in _readable(kv.value)]
        # All of them before a waiter wakes for the first.
        self._arrivals.add(events)
        for event in events:
            self._tell(event, revision)

    def _tell(self, event: Event, revision: int) -> None:
        with self._lock:
            listeners, waiters = list(self._listeners), list(self._waiters)
        if event.due is not None:
            for waiter in waiters:
                waiter.notify(event.name, event.due)
        if event.wakes_at is not None:
            for waiter in waiters:
                waiter.notify(None, event.wakes_at)
        if event.kind is EventKind.BLOCKED and event.name is not None:
            for waiter in waiters:
                waiter.notify_of_blocked(event.name)
        if not any(event.kind in listener.kinds for listener in listeners):
            return
        job_event = event.job_event(revision)
        for listener in listeners:
            listener.hear(job_event)

    def _on_gap(self) -> None:
        """Let every waiter look."""
        with self._lock:
            waiters = list(self._waiters)
        for waiter in waiters:
            waiter.notify()


def _readable(events: bytes) -> list[Event]:
    """Return stored events, up to the first that can't be read."""
    read: list[Event] = []
    try:
        read.extend(unpack_events(events))
    except ValueError as error:
        logger.warning("an event can't be read: %s", error)
    return read


class EtcdWaiter(ConditionWaiter):
    """A waiter that the events of other clients wake."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        queue: ReadyQueue,
        connection: Connection,
        arrivals: Arrivals,
        names: frozenset[str] | None,
    ) -> None:
        super().__init__(names, connection.now, _MAX_WAIT)
        self._subscriptions = subscriptions
        self._queue = queue
        self._arrivals = arrivals
        self._is_subscribed = False

    def ready_in(self) -> float | None:
        self._check()
        if not self._is_subscribed:
            # Most waiters find a job at once, and need no watch.
            if self._queue.next_ready(self._names).due == 0.0:
                return 0.0
            self._subscriptions.subscribe()
            self._is_subscribed = True
        self._begin_to_look()
        self._arrivals.begin(self._names)
        due, is_empty, _ = self._queue.next_ready(self._names)
        if not is_empty:
            self._arrivals.forget(self._names)
        if due is not None:
            self._expect(due)
        earliest = self._earliest
        return None if earliest == math.inf else max(0.0, earliest - self._clock())

    def clock_changed(self) -> None:
        """Sleep anew, since more is known of the server's time."""
        with self._lock:
            self._changed.notify_all()

    def close(self) -> None:
        self._arrivals.forget(self._names)
        self._subscriptions.leave(self)
