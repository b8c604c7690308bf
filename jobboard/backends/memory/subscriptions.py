"""Those who wait for a job that can be claimed, and those who listen for events."""

from __future__ import annotations

from collections.abc import Callable

from jobboard.backends.listeners import Listener
from jobboard.backends.memory.client import MemoryClient
from jobboard.backends.memory.store import MemoryStore
from jobboard.backends.waiter import ConditionWaiter
from jobboard.events import EventKind, JobEvent


class Subscriptions:
    """The waiters and listeners of one client; the store knows those of all."""

    def __init__(self, client: MemoryClient) -> None:
        self._client = client
        self._store, self._lock = client.store, client.lock
        self._waiters: set[MemoryWaiter] = set()
        self._listeners: list[Listener] = []

    def close(self) -> None:
        """End all of this client, under the lock."""
        while self._waiters:
            waiter = self._waiters.pop()
            waiter.board_closed()
            waiter.close()
        while self._listeners:
            self._store.listeners.remove(self._listeners.pop())

    def waiter(self, names: frozenset[str] | None) -> MemoryWaiter:
        with self._lock:
            self._client.begin()
            waiter = MemoryWaiter(self._store, names, self._waiters.discard)
            self._waiters.add(waiter)
            self._store.waiters.add(waiter)
            return waiter

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        listener = Listener(tell, kinds)
        with self._lock:
            self._client.begin()
            self._listeners.append(listener)
            self._store.listeners.append(listener)

        def end() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)
                    self._store.listeners.remove(listener)

        return end


class MemoryWaiter(ConditionWaiter):
    """Sleeps on the store's lock, under which the store notifies it."""

    def __init__(
        self, store: MemoryStore, names: frozenset[str] | None, closed: Callable[[MemoryWaiter], None]
    ) -> None:
        super().__init__(names, lambda: store.clock(), lock=store.lock)  # noqa: PLW0108, the clock may be replaced
        self._store = store
        self._closed = closed

    def ready_in(self) -> float | None:
        with self._store.lock:
            self._begin_to_look()
            now = self._store.expire_and_promote()
            due = self._store.next_ready(self._names, now)
            if due is None:
                return None
            self._expect(due)
            return max(0.0, due - now)

    def close(self) -> None:
        with self._store.lock:
            self._store.waiters.discard(self)
            self._closed(self)
