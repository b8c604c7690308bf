"""What differs between the servers, and the libraries that speak to them."""

from __future__ import annotations

import abc
from typing import Any

from jobboard.backends.sql.database import Lookout
from jobboard.backends.sql.joined import Guest
from jobboard.backends.sql.transaction import Look, Transaction
from jobboard.errors import BoardUnavailable


class Driver(Guest):
    """One kind of server at one address. Its own errors get out of it only where a docstring says so."""

    @property
    @abc.abstractmethod
    def where(self) -> str:
        """The server and the database, for messages; no password."""

    @abc.abstractmethod
    def connect(self, timeout: float) -> Any:
        """Return a connection that is the caller's, and commits only when told to.

        :raises BoardUnavailable: it can't be had.
        """

    @abc.abstractmethod
    def is_alive(self, connection: Any) -> bool:
        """Whether an idle connection still leads anywhere, as far as this end of it knows."""

    @abc.abstractmethod
    def end(self, connection: Any) -> None:
        """Close a connection in any state; raises nothing."""

    @abc.abstractmethod
    def begin(self, cursor: Any, board: int) -> tuple[float, Look]:
        """Begin a transaction that sees what is committed; return the server's time, and how the board looks then.

        Raises its own errors, as all that take a cursor do.
        """

    @abc.abstractmethod
    def begin_look(self, cursor: Any, board: int) -> tuple[float, Look]:
        """Begin one consistent look; return the same."""

    @abc.abstractmethod
    def commit(self, transaction: Transaction, cursor: Any, channel: str | None) -> None:
        """Finish the transaction and commit it, and tell those who listen on the channel."""

    @abc.abstractmethod
    def explain(self, error: Exception) -> BoardUnavailable:
        """Return our error for one of a transaction that was not committed; Undone if it may be taken again."""

    @abc.abstractmethod
    def explain_commit(self, error: Exception) -> BoardUnavailable:
        """Return our error for one of a commit: ReplyLost unless the server said that it did not commit."""

    @abc.abstractmethod
    def read_version(self, connection: Any) -> str | None:
        """Return the schema's version, or None if there are no tables; raises its own errors."""

    @abc.abstractmethod
    def upgrade(self, connection: Any) -> None:
        """Create the tables, or bring them to our version, while nobody else does; raises its own errors.

        :raises BoardUnavailable: somebody else has made them newer meanwhile.
        """

    @abc.abstractmethod
    def lookout(self, connection: Any, channel: str) -> Lookout:
        """Return a lookout that has this connection for its own; raises its own errors."""
