"""Somebody who waits for a job that can be claimed."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from jobboard.backend import Waiter
from jobboard.backends.memory.shelf import Shelf
from jobboard.errors import BoardUnavailable


class ShelfWaiter(Waiter):
    """Sleeps on the shelf's lock until the moment at which a job may be ready; the shelf tells it of earlier ones."""

    def __init__(self, shelf: Shelf, names: frozenset[str] | None, closed: Callable[[ShelfWaiter], None]) -> None:
        self._shelf = shelf
        self._names = names
        self._closed = closed
        self._changed = threading.Condition(shelf.lock)
        #: No job is ready before this moment; -inf says that nobody has asked yet.
        self._earliest = -math.inf
        self._interrupted = False
        self._cut_off = False

    def ready_in(self) -> float | None:
        with self._shelf.lock:
            self._check()
            now = self._shelf.settle()
            due = self._shelf.next_ready(self._names, now)
            self._earliest = math.inf if due is None else due
            return None if due is None else max(0.0, due - now)

    def wait(self, timeout: float | None) -> None:
        deadline = math.inf if timeout is None else self._shelf.clock() + timeout
        with self._shelf.lock:
            while not self._interrupted:
                self._check()
                left = min(self._earliest, deadline) - self._shelf.clock()
                if left <= 0:
                    return
                self._changed.wait(min(left, threading.TIMEOUT_MAX) if left < math.inf else None)
            self._check()
            self._interrupted = False

    def _check(self) -> None:
        if self._cut_off:
            raise BoardUnavailable("the board was closed while somebody waited on it")

    def stir(self, name: str | None, moment: float) -> None:
        """Learn, under the shelf's lock, that a job of this name (None: any) may be ready at that moment."""
        if moment < self._earliest and (name is None or self._names is None or name in self._names):
            self._earliest = moment
            self._changed.notify_all()

    def cut_off(self) -> None:
        """Learn, under the shelf's lock, that the backend was closed."""
        self._cut_off = True
        self._changed.notify_all()
        self.close()

    def interrupt(self) -> None:
        with self._shelf.lock:
            self._interrupted = True
            self._changed.notify_all()

    def close(self) -> None:
        with self._shelf.lock:
            self._shelf.waiters.discard(self)
            self._closed(self)
