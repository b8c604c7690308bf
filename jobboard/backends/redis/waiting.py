"""Waiting on Redis: a waiter is armed on the server, which publishes its id when a job may be ready."""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid as uuids

from jobboard.backends.redis.client import RedisClient
from jobboard.backends.redis.codec import micros, pack
from jobboard.backends.redis.events import Subscriptions
from jobboard.backends.waiter import ConditionWaiter
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.redis")

#: No waiter sleeps longer than this, in seconds, before it asks again: that is what a lost message costs at most.
MAX_SLEEP = 5.0


class Waiters:
    """The waiters of one client, by their ids."""

    def __init__(self, client: RedisClient, subscriptions: Subscriptions) -> None:
        self._client = client
        self._subscriptions = subscriptions
        self._lock = threading.Lock()
        self._waiters: dict[bytes, RedisWaiter] = {}
        self._number = 0
        self._me = ""
        self._is_subscribed = False
        self._closed = True
        subscriptions.resubscribed = self._notify_all

    def open(self) -> None:
        """Begin anew, under a name of its own; a forked child leaves its parent's waiters alone."""
        self._lock = threading.Lock()
        self._waiters, self._is_subscribed = {}, False
        self._me = uuids.uuid4().hex
        self._closed = False

    def close(self) -> None:
        with self._lock:
            self._closed = True
            waiters, self._waiters = list(self._waiters.values()), {}
        for waiter in waiters:
            waiter.board_closed()

    def waiter(self, names: frozenset[str] | None) -> RedisWaiter:
        with self._lock:
            if self._closed:
                raise BoardUnavailable("the board is closed")
            self._number += 1
            waiter = RedisWaiter(self, f"{self._me}/{self._number}", names)
            self._waiters[waiter.id.encode()] = waiter
            return waiter

    # -- for the waiters -------------------------------------------------------------------------------------------

    def ready_in(self, names: frozenset[str] | None, id: str | None) -> float | None:
        """Return the seconds until a job may be ready; with an id, arm that waiter if none is ready now."""
        wanted = None if names is None else list(names)
        moment = self._client.call_until_current("ready_in", pack([wanted, id, micros(MAX_SLEEP)]))[1]
        return None if moment < 0 else moment / 1e6

    def subscribe(self) -> None:
        """Let the messages that wake waiters reach this client."""
        if not self._is_subscribed:
            self._subscriptions.subscribe([f"{self._client.key}:wake:{self._me}".encode()], self._notify)
            self._is_subscribed = True

    def forget(self, waiter: RedisWaiter, is_armed: bool) -> None:
        """Forget a waiter, also on the server."""
        with self._lock:
            known = self._waiters.pop(waiter.id.encode(), None)
        if known is None or not is_armed:
            return
        try:
            self._client.read("disarm", waiter.id)
        except BoardUnavailable as error:
            logger.debug("waiter %s stays armed until the server forgets it: %s", waiter.id, error)

    def _notify(self, id: bytes) -> None:
        waiter = self._waiters.get(id)
        if waiter is not None:
            waiter.notify()

    def _notify_all(self) -> None:
        for waiter in list(self._waiters.values()):
            waiter.notify()


class RedisWaiter(ConditionWaiter):
    """Armed by every ``ready_in`` that finds nothing, under an id that the scripts know."""

    def __init__(self, waiters: Waiters, id: str, names: frozenset[str] | None) -> None:
        super().__init__(names, time.monotonic, MAX_SLEEP)
        self.id = id
        self._waiters = waiters
        self._is_armed = False
        self._has_asked = False

    def ready_in(self) -> float | None:
        self._check()
        if not self._has_asked:
            # Most waiters find a job at once, and then need no subscription.
            due = self._waiters.ready_in(self._names, None)
            if due is not None and due <= 0:
                return due
            self._waiters.subscribe()
            self._has_asked = True
        self._begin_to_look()
        self._is_armed = True
        due = self._waiters.ready_in(self._names, self.id)
        if due is not None:
            self._expect(self._clock() + due)
            if due <= 0:
                # The server arms no waiter that has a job to claim.
                self._is_armed = False
        return due

    def notify(self, name: str | None = None, at: float = -math.inf) -> None:
        self._is_armed = False
        super().notify(name, at)

    def close(self) -> None:
        self._waiters.forget(self, self._is_armed)
