"""What the boards of one process share about a database: one writer at a time, and who is notified after a commit."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable

#: Is told whether somebody may wait for what was committed; if not, only listeners to events want to know.
Notify = Callable[[bool], None]


class ProcessNotifier:
    """Notifies the waiters of this process when one of its own transactions has changed their board."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By the names of boards; replaced as a whole, so that readers need no lock.
        self._waiting: dict[str, tuple[Notify, ...]] = {}
        #: SQLite's writers of one process queue here; those of several sleep and try again.
        self.writing = threading.Lock()

    def add(self, board: str, notify: Notify) -> None:
        with self._lock:
            self._waiting = {**self._waiting, board: (*self._waiting.get(board, ()), notify)}

    def remove(self, notify: Notify) -> None:
        with self._lock:
            left = {
                board: tuple(other for other in waiting if other != notify) for board, waiting in self._waiting.items()
            }
            self._waiting = {board: some for board, some in left.items() if some}

    def notify(self, board: str, is_awaited: bool) -> None:
        for notify in self._waiting.get(board, ()):
            notify(is_awaited)


_notifiers: weakref.WeakValueDictionary[str, ProcessNotifier] = weakref.WeakValueDictionary()
_notifiers_lock = threading.Lock()


def process_notifier_of(database: str) -> ProcessNotifier:
    """Return this process's notifier of a database."""
    with _notifiers_lock:
        process_notifier = _notifiers.get(database)
        if process_notifier is None:
            process_notifier = _notifiers[database] = ProcessNotifier()
        return process_notifier


def _begin_anew() -> None:
    """A forked child has notifiers of its own: the parent's may be locked by threads that the child does not have."""
    global _notifiers, _notifiers_lock
    _notifiers, _notifiers_lock = weakref.WeakValueDictionary(), threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)
