"""The shelves of this process; they stay when the last client has gone."""

from __future__ import annotations

import os
import threading

from jobboard.backends.memory.shelf import Shelf

_lock = threading.Lock()
_shelves: dict[tuple[str, str], Shelf] = {}


def shelf_of(space: str, board: str) -> Shelf:
    """Return the one shelf of this board in this space; a new one the first time."""
    with _lock:
        shelf = _shelves.get((space, board))
        if shelf is None:
            shelf = _shelves[space, board] = Shelf()
        return shelf


# A fork copies what is in memory at that moment, and only the thread that forked: with all locks in its hand, no shelf
# is copied halfway through a change of another thread, under a lock that nobody would release.


def _take_all() -> None:
    _lock.acquire()
    for shelf in _shelves.values():
        shelf.lock.acquire()


def _let_go() -> None:
    for shelf in _shelves.values():
        shelf.lock.release()
    _lock.release()


os.register_at_fork(before=_take_all, after_in_parent=_let_go, after_in_child=_let_go)
