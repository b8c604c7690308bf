"""Where the news of a database come from: a source says that something was committed, and reads what that was."""

from __future__ import annotations

import abc
import contextlib
import select
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.journal_reader import JournalReader, Lines
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.user_connection import UserConnection


class ChangeSource(abc.ABC):
    """What a database commits; for one thread. Raises :class:`~jobboard.errors.BoardUnavailable`."""

    #: Whether it hears what this process commits, so that nobody has to interrupt it for what others may wait for.
    hears_own = False

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._here, self._there = socket.socketpair()
        for end in (self._here, self._there):
            end.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._here, select.POLLIN)
        #: Whether there was news, or an interrupt, since lines were read.
        self._has_unread = True

    @abc.abstractmethod
    def wait_for_news(self, wants_common: bool) -> bool:
        """Wait until it is worth reading, or until it is interrupted; the first time, not at all.

        :param wants_common: whether somebody listens to ``COMMON_KINDS``.
        :return: whether there may be something new for those who wait for jobs; True the first time.
        """

    def interrupt(self) -> None:
        """End the present wait or else the next one, after which lines are read; called from any thread."""
        # A full buffer interrupts as well, and a closed socket has no reader.
        with contextlib.suppress(OSError):
            self._there.send(b".")

    def lines(self, after: int, wants_common: Callable[[], bool]) -> Lines:
        """Return lines of the journal that were not returned yet; none if there was no news.

        :param wants_common: as for :meth:`wait_for_news`; until it returns True, lines of ``COMMON_KINDS`` may be left
            out.
        """
        if not self._has_unread:
            return Lines([], after, True)
        self._has_unread = False
        return self._read(after)

    @abc.abstractmethod
    def _read(self, after: int) -> Lines:
        """Return lines that were not returned yet, up to a number before ``after`` if the journal's end is there."""

    def rows(self, statement: Statement, **parameters: Any) -> list[Row]:
        """Read what is committed."""
        sql, constants = statement.on(self._dialect)
        return self._execute(sql, {**constants, **parameters})

    @abc.abstractmethod
    def _execute(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        """Execute one statement, and return its rows."""

    def close(self) -> None:
        """Close its connection."""
        self._here.close()
        self._there.close()

    def _sleep(self, seconds: float) -> set[int]:
        """Sleep until it is interrupted, or a file that is registered has news; return the numbers of such files."""
        found = {fd for fd, _ in self._poll.poll(max(0.0, seconds) * 1000)}
        if self._here.fileno() in found:
            self._has_unread = True
            with contextlib.suppress(BlockingIOError):
                self._here.recv(1024)
        return found


class ServerChangeSource(ChangeSource):
    """A connection to a server, where lines are numbered when they are written, and visible when committed.

    :param connection: is its own from now on.
    """

    def __init__(self, driver: UserConnection, connection: Any) -> None:
        super().__init__(driver.dialect)
        self._driver = driver
        self._connection = connection
        self._journal = JournalReader(self.rows, driver.dialect.as_list)

    def _read(self, after: int) -> Lines:
        return self._journal.read(after)

    def _execute(self, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        with self._explained(), contextlib.closing(self._connection.cursor()) as cursor:
            cursor.execute(sql, parameters)
            return list(cursor.fetchall())

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except self._driver.error as error:
            raise self._driver.explain(error) from error

    def close(self) -> None:
        with contextlib.suppress(self._driver.error, OSError):
            self._connection.close()
        super().close()
