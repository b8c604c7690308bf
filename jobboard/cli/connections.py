"""The open connections of a server: how many there may be, and which of them makes room for one more."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

from jobboard.peers import network_of

Connection = TypeVar("Connection", bound=Hashable)


class Connections(Generic[Connection]):
    """Counts the connections of a server, in all and of each peer; thread-safe.

    A connection *waits* until a request is whole, and again after the answer. One too many closes the one that has
    waited longest, of the same peer if that has too many. So a client that sends halves of requests stops nobody, not
    even others behind the same address.

    :param most: connections at a time.
    :param most_of_peer: of them those of one peer.
    """

    def __init__(self, most: int, most_of_peer: int) -> None:
        self._most = most
        self._most_of_peer = most_of_peer
        self._peers: dict[Connection, str] = {}
        self._numbers: Counter[str] = Counter()
        #: Since when each waits, longest first.
        self._waiting: dict[Connection, float] = {}
        self._lock = threading.Lock()

    def opened(self, connection: Connection, address: str) -> Connection | None:
        """Count one that waits, and return the one that is to be closed now, if there is one too many.

        That is the new one itself if all others are being answered. It is not counted any more.

        :param address: the peer's IP address.
        """
        peer = network_of(address)
        with self._lock:
            self._peers[connection] = peer
            self._numbers[peer] += 1
            self._waiting[connection] = time.monotonic()
            has_too_many = self._numbers[peer] > self._most_of_peer
            if not has_too_many and len(self._peers) <= self._most:
                return None
            found = next(each for each in self._waiting if not has_too_many or self._peers[each] == peer)
            self._forget(found)
            return found

    def answers(self, connection: Connection) -> bool:
        """Say that its request, or the head of it, is whole; False if it was closed for another one, or as overdue."""
        with self._lock:
            self._waiting.pop(connection, None)
            return connection in self._peers

    def waits(self, connection: Connection) -> None:
        """Say that it was answered, or that the body of its request is awaited."""
        with self._lock:
            if connection in self._peers:
                self._waiting.pop(connection, None)
                self._waiting[connection] = time.monotonic()

    def closed(self, connection: Connection) -> None:
        """Count it no more; may be called again."""
        with self._lock:
            self._forget(connection)

    def take_overdue(self, seconds: float) -> list[Connection]:
        """Return those that have waited for longer, which are to be closed now, and count them no more."""
        with self._lock:
            latest = time.monotonic() - seconds
            found = [each for each, since in self._waiting.items() if since < latest]
            for each in found:
                self._forget(each)
            return found

    def _forget(self, connection: Connection) -> None:
        self._waiting.pop(connection, None)
        peer = self._peers.pop(connection, None)
        if peer is not None:
            self._numbers[peer] -= 1
            if not self._numbers[peer]:
                del self._numbers[peer]
