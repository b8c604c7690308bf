"""What the operations need of a database, and what its boards of one process share."""

from __future__ import annotations

import abc
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from jobboard.backends.sql.change_source import ChangeSource
from jobboard.backends.sql.transaction import Transaction
from jobboard.errors import BoardUnavailable

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


class Transactions(abc.ABC):
    """The transactions of one board: all that its operations need; thread-safe.

    A database that fails raises :class:`~jobboard.errors.BoardUnavailable`, or ``ReplyLost`` where only the reply to
    a commit is missing; no library's own error gets through.
    """

    #: Whether they are parts of a transaction of the user's, which nobody else can run again.
    are_users: ClassVar[bool] = False

    @abc.abstractmethod
    def write(self) -> AbstractContextManager[Transaction]:
        """One transaction whose changes and locks are nobody else's; notifies this process's waiters afterwards."""

    @abc.abstractmethod
    def read(self) -> AbstractContextManager[Transaction]:
        """One transaction that only reads, and sees one consistent state."""


class Database(Transactions):
    """An open database as one board sees it; it belongs to the process that has opened it."""

    process_notifier: ProcessNotifier
    #: The number of this board in the database.
    board: int
    board_name: str
    #: What no other installation has.
    identity: str

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def usable(self) -> bool:
        """Whether this process opened it; connections must not cross a fork."""
        return self._pid == os.getpid()

    def check_process(self) -> None:
        """Raise :class:`~jobboard.errors.BoardUnavailable` if another process opened it."""
        if not self.usable:
            raise BoardUnavailable("the board was opened by another process; call connect() in this one")

    @property
    def reachable(self) -> bool:
        """Whether the last request reached it; a file is always there."""
        return True

    @abc.abstractmethod
    def join(self, connection: Any) -> Transactions:
        """Return the same board inside the transaction that the user has begun on a connection."""

    @abc.abstractmethod
    def change_source(self) -> ChangeSource:
        """Return a new source, on a connection of its own."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close all connections; in a forked child without ending those of the parent."""
