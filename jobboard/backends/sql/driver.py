"""What differs between the servers and their client libraries."""

from __future__ import annotations

import abc
import select
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple

from sqlalchemy.engine import Dialect as Compiler

from jobboard.backends.sql.change_source import ChangeSource
from jobboard.backends.sql.dialect import Dialect, TableNames
from jobboard.backends.sql.floors import ALWAYS, Look
from jobboard.backends.sql.planner import Planner, Step
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.server_errors import ServerErrors
from jobboard.backends.sql.transaction import BoardStatus, Transaction
from jobboard.backends.sql.user_connection import OtherDriverConnection, UserConnection
from jobboard.backends.timelimit import seconds_left, time_limit
from jobboard.errors import BoardUnavailable

#: Seconds after which a statement of a migration is given up.
STEP_TIMEOUT = 3600
#: Seconds for which one statement waits for a row that others have locked; connections are set to it. MariaDB counts in
#: whole seconds.
LOCK_TIMEOUT = 1


class Beginning(NamedTuple):
    """What is known of a board at the beginning of a transaction."""

    #: The server's time.
    now: float
    #: What is due and paused then.
    status: BoardStatus
    #: The floor from which on that was looked for.
    due_floor: float = ALWAYS


class Driver(UserConnection):
    """One kind of server at one address. Its own errors leave it only where a docstring says so.

    :param connect: makes a connection within this many seconds; raises its own errors.
    :param where: the server and the database, for messages; no password.
    """

    #: Writes SQLAlchemy's constructs as text, and makes the parameter of a list.
    compiler: ClassVar[Compiler]
    as_list: ClassVar[Callable[[Iterable[str | int]], Any]]
    #: Reads the server's time, and what is due and paused on a board then.
    status: ClassVar[str]
    #: Whether the server has channels to notify; where it has none, other processes poll.
    has_channels: ClassVar[bool]
    #: Its own errors in our words.
    errors: ClassVar[type[ServerErrors]]
    #: The other kinds of connections of the user's that lead to such a server.
    other_connections: ClassVar[Sequence[type[OtherDriverConnection]]]

    def __init__(self, connect: Callable[[float], Any], where: str, table_names: TableNames) -> None:
        self._connect = connect
        self.where = where
        self.dialect = Dialect(self.compiler, type(self).as_list, table_names)
        self._status = table_names.apply(self.status)
        self._errors = self.errors(where)

    def connect(self, timeout: float) -> Any:
        """Return a new connection, which belongs to the caller.

        :raises BoardUnavailable: the server can't be reached, or refuses the user.
        """
        with time_limit(timeout):
            try:
                connection = self._connect(seconds_left(timeout))
            except (self.error, OSError) as error:
                raise self._errors.unreachable(error) from error
            try:
                self.prepare(connection)
            except BaseException as error:
                self.end(connection)
                if isinstance(error, self.error):
                    raise self._errors.unreachable(error) from error
                raise
            return connection

    @staticmethod
    @abc.abstractmethod
    def adopt(connection: Any, reply_timeout: float) -> None:
        """Make of a connection of an engine one that ``prepare`` takes, with a limit for each reply in seconds."""

    @abc.abstractmethod
    def prepare(self, connection: Any) -> None:
        """Set up a new connection's session; raises its own errors.

        :raises BoardUnavailable: the server is too old.
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

    def rows_of_transaction(self, connection: Any, texts: Sequence[tuple[str, Mapping[str, Any]]]) -> list[list[Row]]:
        """Execute statements that are one transaction, and return the rows of each; raises its own errors."""
        raise NotImplementedError

    def notify_at_once(self, connection: Any, channel: str) -> bool:
        """Notify the listeners of a channel, in a transaction of its own; return whether there are any.

        Raises its own errors.
        """
        raise NotImplementedError

    @property
    def user_connections(self) -> Sequence[UserConnection]:
        """The kinds of connections of the user's that lead to such a server; this driver is one of them."""
        return [self, *(kind(self.dialect, self._errors) for kind in self.other_connections)]

    @abc.abstractmethod
    def begin(self, cursor: Any, board: int, look: Look) -> Beginning:
        """Begin a transaction.

        Raises its own errors, as all methods that take a cursor do.

        :param look: how to look for what is due.
        """

    @abc.abstractmethod
    def begin_read(self, cursor: Any, board: int, look: Look) -> Beginning:
        """Begin a transaction that reads one consistent state."""

    @abc.abstractmethod
    def commit(self, transaction: Transaction, cursor: Any) -> None:
        """Finish the transaction, and commit it."""

    def explain(self, error: Exception) -> BoardUnavailable:
        """Return our error for one of a transaction that was not committed; TransactionUndone if it may run again."""
        return self._errors.explain(error)

    def is_table_missing(self, error: Exception) -> bool:
        return self._errors.is_table_missing(error)

    def explain_commit(self, error: Exception) -> BoardUnavailable:
        """Return our error for one of a commit: ReplyLost unless the server said that it did not commit."""
        return self._errors.explain_commit(error)

    @abc.abstractmethod
    def read_version(self, connection: Any) -> str | None:
        """Return the schema's version, or None if there are no tables; raises its own errors."""

    @abc.abstractmethod
    def migrating(self, connection: Any, timeout: float) -> AbstractContextManager[None]:
        """Let this connection alone migrate these tables within the block, where a statement may take an hour.

        :param timeout: seconds to wait for others that do so.
        :raises BoardUnavailable: others did so for longer.
        """

    @abc.abstractmethod
    def planner(self, connection: Any) -> Planner:
        """Return what plans the steps from the tables that are there; raises its own errors."""

    @abc.abstractmethod
    def take(self, connection: Any, step: Step) -> None:
        """Take one step; raises its own errors."""

    def mend_sequences(self, connection: Any) -> list[str]:
        """Let what gives numbers go on after the rows; return what was behind them. Raises its own errors."""
        return []

    @abc.abstractmethod
    def change_source(self, connection: Any, channel: str, event_channel: str) -> ChangeSource:
        """Return a source that owns this connection; raises its own errors.

        :param channel: notified of what somebody may wait for.
        :param event_channel: notified of what else has changed.
        """


def has_input(socket: Any) -> bool:
    """Whether there is something to read; an idle server sends nothing but the end of the connection."""
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))
