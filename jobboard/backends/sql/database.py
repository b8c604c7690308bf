"""What the operations need of a database; each kind of database is one subclass."""

from __future__ import annotations

import abc
import os
from contextlib import AbstractContextManager
from typing import Any

from jobboard.backends.sql.change_source import ChangeSource
from jobboard.backends.sql.process_notifier import ProcessNotifier
from jobboard.backends.sql.transaction import Transaction
from jobboard.errors import BoardUnavailable


class Transactions(abc.ABC):
    """The transactions of one board: all that its operations need; thread-safe.

    A database that fails raises :class:`~jobboard.errors.BoardUnavailable`, or ``ReplyLost`` where only the reply to
    a commit is missing; no library's own error gets through.
    """

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
