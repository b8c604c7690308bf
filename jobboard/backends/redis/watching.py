"""Waiting and listening: a waiter is armed on the server, and woken through the client's ear."""

from __future__ import annotations

import threading
import time
import uuid as uuids
from collections.abc import Callable
from typing import Any

from jobboard.backends.base import Waiter
from jobboard.backends.listeners import Listener
from jobboard.backends.redis.client import Client, logger
from jobboard.backends.redis.ear import Ear
from jobboard.backends.redis.places import Connection
from jobboard.backends.redis.wire import events_of, micros, pack
from jobboard.backends.waiter import ConditionWaiter
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent

#: Nobody sleeps longer than this without looking, in seconds: a wake-up that got lost costs no more.
LONGEST_SLEEP = 5.0


class Watching(Client):
    """Opens the ear when the first one waits or listens; it stays open until the client closes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._watch_lock = threading.Lock()
        self._ear: Ear | None = None
        self._waiters: dict[bytes, RedisWaiter] = {}
        self._number = 0
        self._me = ""
        self._is_hearing = False

    def open(self, timeout: float) -> None:
        # A forked child inherits the ear of its parent, without the thread, and a lock in nobody's hand.
        self._watch_lock = threading.Lock()
        self._ear, self._waiters, self._is_hearing = None, {}, False
        self._me = uuids.uuid4().hex
        super().open(timeout)

    def close(self) -> None:
        self._is_open = False
        with self._watch_lock:
            ear, self._ear = self._ear, None
            waiters, self._waiters = list(self._waiters.values()), {}
        for waiter in waiters:
            waiter.cut_off()
        if ear is not None:
            ear.close()
        super().close()

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        with self._watch_lock:
            self._check_open()
            self._number += 1
            waiter = RedisWaiter(self, f"{self._me}/{self._number}", names)
            self._waiters[waiter.id.encode()] = waiter
            return waiter

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        listener = Listener(tell, kinds)

        def hear(message: bytes) -> None:
            try:
                for event in events_of(message):
                    listener.hear(event)
            except Exception:
                # Garbage on the channel must not end the hearing.
                logger.exception("an event can't be read")

        channels = [f"{self.key}:events:{kind.value}".encode() for kind in sorted(kinds)]
        return self._open_ear().hear(channels, hear) if channels else lambda: None

    # -- for the waiters -------------------------------------------------------------------------------------------

    def look(self, names: frozenset[str] | None, id: str | None) -> float | None:
        """Ask when a job is ready; with an id, arm that waiter if it is not now."""
        wanted = None if names is None else list(names)
        moment = self._until_settled("look", pack([wanted, id, micros(LONGEST_SLEEP)]))[1]
        return None if moment < 0 else moment / 1e6

    def hear_wakes(self) -> None:
        """See to it that wake-ups reach this client."""
        ear = self._open_ear()
        with self._watch_lock:
            if self._is_hearing:
                return
            channel = f"{self.key}:wake:{self._me}".encode()
        ear.hear([channel], self._wake)
        self._is_hearing = True

    def leave(self, waiter: RedisWaiter, is_armed: bool) -> None:
        """Forget a waiter, also on the server."""
        with self._watch_lock:
            known = self._waiters.pop(waiter.id.encode(), None)
        if known is None or not is_armed:
            return
        try:
            self._look("leave", waiter.id)
        except BoardUnavailable as error:
            logger.debug("waiter %s is left to be forgotten: %s", waiter.id, error)

    def _wake(self, id: bytes) -> None:
        waiter = self._waiters.get(id)
        if waiter is not None:
            waiter.wake()

    def _wake_all(self) -> None:
        for waiter in list(self._waiters.values()):
            waiter.wake()

    def _open_ear(self) -> Ear:
        with self._watch_lock:
            self._check_open()
            if self._ear is None:
                self._ear = Ear(self._connect_ear, self.patience, self._wake_all)
            return self._ear

    def _connect_ear(self) -> Connection:
        # After a break the board may be on another server, and no request may have found that out.
        self.server.place.forget()
        return self.server.connect()

    def _check_open(self) -> None:
        if not self._is_open:
            raise BoardUnavailable("the board is closed")


class RedisWaiter(ConditionWaiter):
    """Armed by every ``ready_in`` that finds nothing, under an id that the scripts know."""

    def __init__(self, client: Watching, id: str, names: frozenset[str] | None) -> None:
        super().__init__(names, time.monotonic, LONGEST_SLEEP)
        self.id = id
        self._client = client
        self._is_armed = False
        self._has_looked = False

    def ready_in(self) -> float | None:
        self._check()
        if not self._has_looked:
            # Most who look find something, and then need no ear.
            due = self._client.look(self._names, None)
            if due is not None and due <= 0:
                return due
            self._client.hear_wakes()
            self._has_looked = True
        self._begin_to_look()
        self._is_armed = True
        due = self._client.look(self._names, self.id)
        if due is not None:
            self._expect(self._clock() + due)
            if due <= 0:
                # Who has something to claim is not armed, and has nothing to take back.
                self._is_armed = False
        return due

    def wake(self) -> None:
        self._is_armed = False
        super().wake()

    def close(self) -> None:
        self._client.leave(self, self._is_armed)
