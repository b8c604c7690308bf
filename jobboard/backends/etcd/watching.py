"""Waiting and listening, by the watch of one ear."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

from jobboard.backends.base import Waiter
from jobboard.backends.etcd.claiming import Claiming
from jobboard.backends.etcd.client import FAREWELL, logger
from jobboard.backends.etcd.ear import Ear, Seen
from jobboard.backends.etcd.rows import Hint
from jobboard.backends.etcd.telling import Told, unpack_told
from jobboard.backends.etcd.txn import KeyValue, after, scan, scan_prefix
from jobboard.backends.listeners import Listener
from jobboard.backends.timelimit import seconds_left
from jobboard.backends.waiter import ConditionWaiter
from jobboard.events import EventKind, JobEvent

#: Nobody sleeps longer than this without looking, in seconds.
LONGEST_SLEEP = 10.0

#: How many coming moments are looked through for one of the wanted names.
_MOMENTS = 64

#: How many requests tell who waits the server's time closely enough: each halves what the second leaves open.
_PROBES = 8

#: No job's name: what stands for one that can't be read.
_UNKNOWN = ""


class Watching(Claiming):
    """Opens the ear when the first one waits or listens; it stays open until the client closes."""

    def _opened_anew(self) -> None:
        super()._opened_anew()
        self._watch_lock = threading.Lock()
        self._ear: Ear | None = None
        self._waiters: set[EtcdWaiter] = set()
        self._listeners: list[Listener] = []

    def close(self) -> None:
        self._is_open = False
        with self._watch_lock:
            ear, self._ear = self._ear, None
            waiters, self._waiters = list(self._waiters), set()
            self._listeners = []
        for waiter in waiters:
            waiter.cut_off()
        if ear is not None:
            ear.close(FAREWELL)
        super().close()

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        self._check_open()
        waiter = EtcdWaiter(self, names)
        with self._watch_lock:
            self._waiters.add(waiter)
        return waiter

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        listener = Listener(tell, kinds)
        self.hear()
        with self._watch_lock:
            self._listeners.append(listener)

        def end() -> None:
            with self._watch_lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return end

    # -- for the waiters -------------------------------------------------------------------------------------------

    def hear(self) -> None:
        """See to it that nothing that happens from now on is missed."""
        with self._watch_lock:
            self._check_open()
            if self._ear is None:
                self._ear = Ear(self.gateway, self.keys.watched, self._heard, self._missed)
                self._worker.soon(self._tune)
            ear = self._ear
        ear.wait_until_hearing(seconds_left(self.gateway.timeout))

    def _tune(self, probes: int = _PROBES) -> None:
        """Get to know the server's clock, with a few requests at the moments at which they tell most."""
        wait = self.gateway.clock.probe_in()
        if wait is not None and probes > 0:
            self._worker.at(time.monotonic() + wait, lambda: self._probe(probes))

    def _probe(self, probes: int) -> None:
        self.gateway.ask_time()
        with self._watch_lock:
            waiters = list(self._waiters)
        for waiter in waiters:
            waiter.look_at_the_clock()
        self._tune(probes - 1)

    def leave(self, waiter: EtcdWaiter) -> None:
        with self._watch_lock:
            self._waiters.discard(waiter)

    def next_ready(self, names: frozenset[str] | None) -> float | None:
        """Return the moment at which a job of these names can be claimed, or may be; 0: now; None: not in sight."""
        lines = self._lines_of(names)
        if not lines:
            return None
        keys = self.keys
        # Of those whose moments are past, what is left after a look is for later versions to see to.
        coming = scan(keys.until(self.now()), after(keys.timers), _MOMENTS)
        *found, timers, paused = self._first_of(lines, 1 + self._skipped(), [coming, scan_prefix(keys.paused)])
        stopped = self._names_of(paused)
        if None in stopped:
            return None
        # Of what can't be read, whoever claims finds out what it is.
        places = [kv for part in found for kv in part.kvs if kv.key.rpartition(b"/")[2] not in self._newer]
        heads = [kv for kv in places if _name_in(kv) not in stopped]
        if heads or (names is None and found[0].kvs and self._heads_behind(found[0].kvs[-1].key, stopped, 1)):
            return 0.0
        for timer in timers.kvs:
            name = _name_in(timer)
            if name not in stopped and (names is None or name in (*names, _UNKNOWN)):
                return _moment_of(timer.key)
        # So many others come first that a look at that time is as good.
        return _moment_of(timers.kvs[-1].key) if timers.more else None

    # -- in the ear's thread ---------------------------------------------------------------------------------------

    def _heard(self, revision: int, seen: Sequence[Seen]) -> None:
        events = [kv for kv, is_gone in seen if not is_gone and kv.key.startswith(self.keys.events)]
        if not events:
            # Who gives a lease back tells something along with it; these sessions ended with their leases.
            for kv in (kv for kv, is_gone in seen if is_gone):
                if (lease := self.keys.lease_of(kv.key)) is not None:
                    self._lease_lost(lease)
        for kv in events:
            try:
                for told in unpack_told(kv.value):
                    self._tell(told, revision)
            except ValueError as error:
                logger.warning("an event can't be read: %s", error)

    def _tell(self, told: Told, revision: int) -> None:
        with self._watch_lock:
            listeners, waiters = list(self._listeners), list(self._waiters)
        if told.due is not None:
            for waiter in waiters:
                waiter.stir(told.name, told.due)
        if not any(told.kind in listener.kinds for listener in listeners):
            return
        event = told.event(revision)
        for listener in listeners:
            listener.hear(event)

    def _missed(self) -> None:
        """Let everybody look for himself."""
        with self._watch_lock:
            waiters = list(self._waiters)
        for waiter in waiters:
            waiter.stir(None, 0.0)


def _name_in(place: KeyValue) -> str:
    hint = Hint.of(place.value)
    return _UNKNOWN if hint is None else hint.name


def _moment_of(timer: bytes) -> float:
    """Return the moment of a timer; 0, which is now, of what is none: whoever looks then finds out."""
    moment = timer.split(b"/")[-2]
    return int(moment) / 1e6 if moment.isdigit() else 0.0


class EtcdWaiter(ConditionWaiter):
    """Stirred by the ear."""

    def __init__(self, client: Watching, names: frozenset[str] | None) -> None:
        super().__init__(names, client.now, LONGEST_SLEEP)
        self._client = client
        self._is_hearing = False

    def ready_in(self) -> float | None:
        self._check()
        if not self._is_hearing:
            # Most who look find something, and then need no ear.
            due = self._client.next_ready(self._names)
            if due == 0.0:
                return 0.0
            self._client.hear()
            self._is_hearing = True
        self._begin_to_look()
        due = self._client.next_ready(self._names)
        if due is not None:
            self._expect(due)
        earliest = self._earliest
        return None if earliest == math.inf else max(0.0, earliest - self._clock())

    def look_at_the_clock(self) -> None:
        """Learn that more is known of the server's clock, by which this sleeps."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        self._client.leave(self)
