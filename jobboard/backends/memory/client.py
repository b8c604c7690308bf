"""A client of one shelf: open and closed, waiting and listening."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobboard.backends.address import Address
from jobboard.backends.base import Backend, Waiter
from jobboard.backends.listeners import Listener
from jobboard.backends.memory.registry import shelf_of
from jobboard.backends.memory.shelf import Shelf
from jobboard.backends.memory.waiter import ShelfWaiter
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent


class Client(Backend):
    """What the parts of the memory backend stand on."""

    def __init__(self, board: str, address: Address, **options: Any) -> None:
        super().__init__(board, address, **options)
        self._shelf = shelf_of(_space_of(address), board)
        self._lock = self._shelf.lock
        self._is_open = False
        self._waiters: set[ShelfWaiter] = set()
        self._listening: list[Listener] = []

    def open(self, timeout: float) -> None:
        with self._lock:
            self._is_open = True

    def close(self) -> None:
        with self._lock:
            self._is_open = False
            while self._waiters:
                self._waiters.pop().cut_off()
            while self._listening:
                self._shelf.listeners.remove(self._listening.pop())

    @property
    def shelf(self) -> Shelf:
        """What all clients of this board share; look at it and change it under its lock only."""
        return self._shelf

    @property
    def connected(self) -> bool:
        return self._is_open

    def now(self) -> float:
        return self._shelf.clock()

    def _begin(self) -> float:
        """Begin a primitive, under the lock: the shelf is settled, and its present moment returned."""
        if not self._is_open:
            raise BoardUnavailable("the board is closed")
        return self._shelf.settle()

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        with self._lock:
            self._begin()
            waiter = ShelfWaiter(self._shelf, names, self._waiters.discard)
            self._waiters.add(waiter)
            self._shelf.waiters.add(waiter)
            return waiter

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        listener = Listener(tell, kinds)
        with self._lock:
            self._begin()
            self._listening.append(listener)
            self._shelf.listeners.append(listener)

        def end() -> None:
            with self._lock:
                if listener in self._listening:
                    self._listening.remove(listener)
                    self._shelf.listeners.remove(listener)

        return end


def _space_of(address: Address) -> str:
    """Return the name of the space that an address means; memory has no port, no path and no users."""
    if address.path.strip("/") or address.username or address.password or len(address.hosts) > 1:
        raise ValueError("a board in memory is memory:// or memory://SPACE; there is no path, no user, no second host")
    if not address.hosts:
        return ""
    ((host, port),) = address.hosts
    if port is not None:
        raise ValueError("a board in memory is memory:// or memory://SPACE; there is no port")
    return host
