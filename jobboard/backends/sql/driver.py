"""What differs between the servers and their client libraries."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from jobboard.backends.sql.database import ChangePoller
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.transaction import BoardStatus, Transaction
from jobboard.backends.sql.user_connection import UserConnection
from jobboard.errors import BoardUnavailable


class Driver(UserConnection):
    """One kind of server at one address. Its own errors leave it only where a docstring says so."""

    #: Whether the server has channels to notify; where it has none, other processes poll.
    has_channels: ClassVar[bool]

    @property
    @abc.abstractmethod
    def where(self) -> str:
        """The server and the database, for messages; no password."""

    @abc.abstractmethod
    def connect(self, timeout: float) -> Any:
        """Return a new connection, which belongs to the caller.

        :raises BoardUnavailable: the server can't be reached, or refuses the user.
        """

    @abc.abstractmethod
    def is_alive(self, connection: Any) -> bool:
        """Whether an idle connection can be used, as far as this end of it knows; no request."""

    @abc.abstractmethod
    def end(self, connection: Any) -> None:
        """Close a connection in any state; raises nothing."""

    def rows(self, connection: Any, text: str, parameters: Mapping[str, Any]) -> list[Row]:
        """Execute one statement that is a transaction by itself, and return its rows; raises its own errors."""
        cursor = connection.cursor()
        cursor.execute(text, parameters)
        rows: list[Row] = cursor.fetchall()
        return rows

    def notify_at_once(self, connection: Any, channel: str) -> None:
        """Notify who listens on the channel, in a transaction of its own; raises its own errors."""
        self.notify(connection.cursor(), channel)

    def lock(self, cursor: Any) -> None:
        """Each row is locked by itself."""

    @property
    @abc.abstractmethod
    def user_connections(self) -> Sequence[UserConnection]:
        """The kinds of connections of the user's that lead to such a server; this driver is one of them."""

    @abc.abstractmethod
    def begin(self, cursor: Any, board: int) -> tuple[float, BoardStatus]:
        """Begin a transaction; return the server's time, and what is due and paused then.

        Raises its own errors, as all methods that take a cursor do.
        """

    @abc.abstractmethod
    def begin_read(self, cursor: Any, board: int) -> tuple[float, BoardStatus]:
        """Begin a transaction that reads one consistent state; return the same."""

    @abc.abstractmethod
    def commit(self, transaction: Transaction, cursor: Any) -> None:
        """Finish the transaction, and commit it."""

    @abc.abstractmethod
    def explain(self, error: Exception) -> BoardUnavailable:
        """Return our error for one of a transaction that was not committed; TransactionUndone if it may run again."""

    @abc.abstractmethod
    def explain_commit(self, error: Exception) -> BoardUnavailable:
        """Return our error for one of a commit: ReplyLost unless the server said that it did not commit."""

    @abc.abstractmethod
    def read_version(self, connection: Any) -> str | None:
        """Return the schema's version, or None if there are no tables; raises its own errors."""

    @abc.abstractmethod
    def upgrade(self, connection: Any) -> None:
        """Create or upgrade the tables under a lock; raises its own errors.

        :raises BoardUnavailable: another process has made them newer meanwhile.
        """

    @abc.abstractmethod
    def change_poller(self, connection: Any, channel: str, event_channel: str) -> ChangePoller:
        """Return a poller that owns this connection; raises its own errors.

        :param channel: notified of what somebody may wait for.
        :param event_channel: notified of what else has changed.
        """
