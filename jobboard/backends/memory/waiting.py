"""Waiting on a shelf: woken at once by whatever makes a job claimable sooner."""

from __future__ import annotations

import time
from collections.abc import Callable

from jobboard.backend import Waiter
from jobboard.backends.memory.shelf import Shelf, clock
from jobboard.errors import BoardUnavailable


class MemoryWaiter(Waiter):
    """Waits on the shelf's condition; the number of changes tells whether anything happened in between."""

    def __init__(self, shelf: Shelf, names: frozenset[str] | None, is_open: Callable[[], bool]) -> None:
        self._shelf = shelf
        self._names = names
        self._is_open = is_open
        self._seen = -1
        self._interrupted = False

    def ready_in(self) -> float | None:
        shelf = self._shelf
        with shelf.lock:
            self._check_open()
            now = clock()
            shelf.settle(now)
            self._seen = shelf.changes
            if any(shelf.ready.head(name) for name in shelf.claimable_names(self._names)):
                return 0.0
            due = shelf.due.next()
            return None if due is None else max(0.0, due - now)

    def wait(self, timeout: float | None) -> None:
        shelf = self._shelf
        deadline = None if timeout is None else time.monotonic() + timeout
        with shelf.lock:
            while self._is_open() and shelf.changes == self._seen and not self._interrupted:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return
                shelf.changed.wait(left)
            self._interrupted = False
            self._check_open()

    def interrupt(self) -> None:
        with self._shelf.lock:
            self._interrupted = True
            self._shelf.changed.notify_all()

    def close(self) -> None:
        """Nothing is taken by waiting."""

    def _check_open(self) -> None:
        if not self._is_open():
            raise BoardUnavailable("the board was closed while somebody waited on it")
