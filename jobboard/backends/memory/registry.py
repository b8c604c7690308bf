"""The stores of this process; they stay when the last client has gone."""

from __future__ import annotations

import os
import threading

from jobboard.backends.memory.store import MemoryStore

_lock = threading.Lock()
_stores: dict[tuple[str, str], MemoryStore] = {}


def store_of(space: str, board: str) -> MemoryStore:
    """Return the one store of this board in this space; a new one the first time."""
    with _lock:
        store = _stores.get((space, board))
        if store is None:
            store = _stores[space, board] = MemoryStore()
        return store


def forget_store(space: str, board: str) -> None:
    """Drop the store of this board; clients that have it keep it, and the next one begins anew."""
    with _lock:
        _stores.pop((space, board), None)


# A fork copies what is in memory at that moment, and only the thread that forked: it takes all locks first, so
# that it copies no store halfway through a change of another thread, under a lock that nobody would release.


def _acquire_all() -> None:
    _lock.acquire()
    for store in _stores.values():
        store.lock.acquire()


def _release_all() -> None:
    for store in _stores.values():
        store.lock.release()
    _lock.release()


os.register_at_fork(before=_acquire_all, after_in_parent=_release_all, after_in_child=_release_all)
