"""What the operations need of a database; each kind of database is one subclass."""

from __future__ import annotations

import abc
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from jobboard.backends.sql.event_statements import EVENTS, LAST_EVENT, MAX_EVENTS
from jobboard.backends.sql.process_notifier import ProcessNotifier
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import Transaction
from jobboard.errors import BoardUnavailable


class Lines(NamedTuple):
    """Some lines of the journal, the number up to which it was read, and whether that is its end."""

    rows: list[Row]
    last: int
    is_end: bool


def lines_after(rows: Callable[..., list[Row]], last: int) -> Lines:
    """Return the lines after the number ``last``, up to a number before it if the journal's end is there.

    :param rows: runs a statement.
    """
    found = rows(EVENTS, last=last)
    new = [row for row in found if row[0] != last]
    if new:
        return Lines(new, new[-1][0], len(new) < MAX_EVENTS)
    # Once the line that was read last is gone, the journal may end before it.
    return Lines([], last if found or not last else min(last, rows(LAST_EVENT)[0][0]), True)


class ChangePoller(abc.ABC):
    """Notices what other processes commit; for one thread. Raises :class:`~jobboard.errors.BoardUnavailable`."""

    #: Whether :meth:`has_changed` notices every change; if not, only those that somebody may wait for.
    notices_all = True
    #: Whether it notices what this process commits, so that nobody has to interrupt it for that.
    notices_own = False

    @abc.abstractmethod
    def has_changed(self) -> bool:
        """Whether anything was committed since it was last asked; True the first time. Costs next to nothing."""

    @abc.abstractmethod
    def wait(self, interrupted: threading.Event, has_listeners: bool, wants_common: bool) -> None:
        """Wait until it is worth asking again, or until it is interrupted.

        :param interrupted: set by whoever interrupts, before :meth:`interrupt` is called.
        :param has_listeners: whether somebody listens to events.
        :param wants_common: whether somebody listens to ``COMMON_KINDS``.
        """

    @property
    def was_notified(self) -> bool:
        """Whether the last wait ended because somebody has committed what others may wait for, or is about to."""
        return False

    def interrupt(self) -> None:  # noqa: B027, the event is enough where the poller waits for it
        """End the wait; called from other threads, after ``interrupted`` was set."""

    def poll_soon(self) -> None:  # noqa: B027, for pollers that ask less often the longer nothing happens
        """Ask often again, since somebody new listens; called from other threads."""

    def events(self, after: int, wants_common: Callable[[], bool]) -> Lines:
        """Return lines of the journal that were not returned yet, up to a number before ``after`` if its end is there.

        :param wants_common: as for :meth:`wait`; until it returns True, lines of ``COMMON_KINDS`` may be left out.
        """
        return lines_after(self.rows, after)

    @abc.abstractmethod
    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        """Read what is committed."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close its connection."""


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
    def change_poller(self) -> ChangePoller:
        """Return a new poller, on a connection of its own."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close all connections; in a forked child without ending those of the parent."""
