"""What the boards of one process share about a database: one writer at a time, and who is woken after a commit."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable

Wake = Callable[[], None]


class Hub:
    """Wakes those of this process who wait on a board that one of its transactions has changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wakers: dict[Wake, str] = {}
        #: Writers of one process queue here, and not in SQLite's busy handler, which sleeps.
        self.writing = threading.Lock()

    def add(self, board: str, wake: Wake) -> None:
        with self._lock:
            self._wakers[wake] = board

    def remove(self, wake: Wake) -> None:
        with self._lock:
            self._wakers.pop(wake, None)

    def wake(self, board: str) -> None:
        if self._wakers:
            with self._lock:
                wakers = [wake for wake, where in self._wakers.items() if where == board]
            for wake in wakers:
                wake()


_hubs: weakref.WeakValueDictionary[str, Hub] = weakref.WeakValueDictionary()
_hubs_lock = threading.Lock()


def hub_of(database: str) -> Hub:
    """Return this process's hub of a database."""
    with _hubs_lock:
        hub = _hubs.get(database)
        if hub is None:
            hub = _hubs[database] = Hub()
        return hub


def _begin_anew() -> None:
    """A forked child has hubs of its own: the parent's may be locked by threads that it does not have."""
    global _hubs, _hubs_lock
    _hubs, _hubs_lock = weakref.WeakValueDictionary(), threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)
