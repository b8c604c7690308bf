"""Somebody who waits for a job that can be claimed."""

from __future__ import annotations

from collections.abc import Callable

from jobboard.backends.memory.shelf import Shelf
from jobboard.backends.waiter import ConditionWaiter


class ShelfWaiter(ConditionWaiter):
    """Sleeps on the shelf's lock, under which the shelf stirs it."""

    def __init__(self, shelf: Shelf, names: frozenset[str] | None, closed: Callable[[ShelfWaiter], None]) -> None:
        super().__init__(names, shelf.clock, lock=shelf.lock)
        self._shelf = shelf
        self._closed = closed

    def ready_in(self) -> float | None:
        with self._shelf.lock:
            self._begin_to_look()
            now = self._shelf.settle()
            due = self._shelf.next_ready(self._names, now)
            if due is None:
                return None
            self._expect(due)
            return max(0.0, due - now)

    def cut_off(self) -> None:
        super().cut_off()
        self.close()

    def close(self) -> None:
        with self._shelf.lock:
            self._shelf.waiters.discard(self)
            self._closed(self)
