"""Listening on Redis: one subscriber for all who listen or wait at one client."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection

from jobboard.backends.listeners import Listener
from jobboard.backends.redis.codec import events_of
from jobboard.backends.redis.connection import Connection
from jobboard.backends.redis.pool import ConnectionPool
from jobboard.backends.redis.subscriber import Handler, Subscriber
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent

logger = logging.getLogger("jobboard.redis")


class Subscriptions:
    """Starts the subscriber when it is needed first; it runs until the board is closed.

    :param timeout: seconds within which the server must answer.
    """

    def __init__(self, pool: ConnectionPool, key: str, timeout: float) -> None:
        self._pool = pool
        self._key = key
        self.timeout = timeout
        self._lock = threading.Lock()
        self._subscriber: Subscriber | None = None
        self._closed = True
        #: Called after every break of the connection, because messages may have been missed.
        self.resubscribed: Callable[[], None] = lambda: None

    def open(self) -> None:
        """Begin anew. A forked child has its parent's subscriber without the thread, and the lock may be held."""
        self._lock = threading.Lock()
        self._subscriber = None
        self._closed = False

    def close(self) -> None:
        with self._lock:
            self._closed = True
            subscriber, self._subscriber = self._subscriber, None
        if subscriber is not None:
            subscriber.close()

    def listen(self, receive: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        listener = Listener(receive, kinds)

        def handle(message: bytes) -> None:
            try:
                for event in events_of(message):
                    listener.hear(event)
            except Exception:
                # Garbage on the channel must not end the subscription.
                logger.exception("an event can't be read")

        channels = [f"{self._key}:events:{kind.value}".encode() for kind in sorted(kinds)]
        return self.subscribe(channels, handle)

    def subscribe(self, channels: Collection[bytes], handle: Handler) -> Callable[[], None]:
        """Hand every later message of these channels to ``handle``; the function returned ends it, and is idempotent.

        :raises BoardUnavailable: the server can't be reached, or the board is closed.
        """
        if not channels:
            return lambda: None
        with self._lock:
            if self._closed:
                raise BoardUnavailable("the board is closed")
            if self._subscriber is None:
                self._subscriber = Subscriber(self.connect, self.timeout, self.resubscribed)
            subscriber = self._subscriber
        return subscriber.subscribe(channels, handle)

    def connect(self) -> Connection:
        """Return a connection to the server that has the board now."""
        # After a break the board may be on another server, and no request may have found that out.
        self._pool.topology.forget()
        return self._pool.connect()
