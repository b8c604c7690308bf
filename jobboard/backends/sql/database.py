"""What the primitives need of a database; each kind of database is one subclass."""

from __future__ import annotations

import abc
import threading
from contextlib import AbstractContextManager
from typing import Any

from jobboard.backends.sql.hub import Hub
from jobboard.backends.sql.news import EVENTS
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import Transaction


class Lookout(abc.ABC):
    """Notices what other processes commit; for one thread. Raises :class:`~jobboard.errors.BoardUnavailable`."""

    #: Whether :meth:`has_changed` notices every change; if not, only those that somebody may wait for.
    notices_all = True

    @abc.abstractmethod
    def has_changed(self) -> bool:
        """Whether anything was committed since it was last asked; True the first time. Costs next to nothing."""

    @abc.abstractmethod
    def rest(self, nudged: threading.Event, is_listened: bool) -> None:
        """Wait until it is worth the while to ask again, or until it is nudged.

        :param is_listened: whether somebody wants to hear of events.
        """

    def interrupt(self) -> None:  # noqa: B027, an event is enough where it is waited for by its own means
        """End the rest; called from other threads, after ``nudged`` was set."""

    def look_soon(self) -> None:  # noqa: B027, for those whose looks become rarer
        """Somebody new listens; called from other threads."""

    def events(self, after: int) -> list[Row]:
        """Return lines of the journal that are not told yet."""
        return self.rows(EVENTS, last=after)

    @abc.abstractmethod
    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        """Look at what is committed."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of its connection."""


class Database(abc.ABC):
    """An open database as one board sees it; thread-safe.

    A database that fails raises :class:`~jobboard.errors.BoardUnavailable`, or ``ReplyLost`` where only the reply to
    a commit is missing; no library's own error gets through.
    """

    hub: Hub
    #: The number of this board in the database.
    board: int
    board_name: str
    #: What no other installation has.
    identity: str

    @property
    @abc.abstractmethod
    def usable(self) -> bool:
        """Whether this process opened it; connections must not cross a fork."""

    @property
    def reachable(self) -> bool:
        """Whether there is nothing known against it; a file is always there."""
        return True

    @abc.abstractmethod
    def write(self) -> AbstractContextManager[Transaction]:
        """One transaction whose changes and locks are nobody else's; wakes this process's waiters afterwards."""

    @abc.abstractmethod
    def read(self) -> AbstractContextManager[Transaction]:
        """One consistent look."""

    @abc.abstractmethod
    def lookout(self) -> Lookout:
        """Return a new lookout, on a connection of its own."""

    @abc.abstractmethod
    def close(self) -> None:
        """Let go of all connections; in a forked child without ending those of the parent."""
