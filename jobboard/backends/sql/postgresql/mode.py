"""The ways of PostgreSQL that a board goes, as far as they differ from server to server."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import psycopg
from sqlalchemy.engine import Dialect as Compiler

from jobboard.backends.sql.change_source import ChangeSource
from jobboard.backends.sql.dialect import TableNames
from jobboard.backends.sql.driver import LOCK_TIMEOUT
from jobboard.backends.sql.planner import Step
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.user_connection import UserConnection

#: Makes a connection within this many seconds; raises psycopg's own errors.
Connect = Callable[[float], psycopg.Connection[Any]]
#: A statement and its parameters.
Request = tuple[str, Mapping[str, Any]]

# An index serves every statement of ours, in its order. A planner that has no statistics of a new table, or those of an
# empty board, must not choose another plan.
OFF = ("enable_seqscan", "enable_bitmapscan", "enable_sort", "enable_hashjoin", "enable_mergejoin", "jit")
#: What is set for PostgreSQL's planner. Nor may it start worker processes, each of which takes longer than a statement.
PLANNER_SETTINGS = (*(f"{name} = off" for name in OFF), "max_parallel_workers_per_gather = 0")
#: What is set on every server.
SETTINGS = (
    # Moments to the last digit.
    "extra_float_digits = 1",
    f"lock_timeout = '{LOCK_TIMEOUT}s'",
    # A process that is frozen in a transaction would keep its jobs locked, and so from being taken back.
    "idle_in_transaction_session_timeout = '10s'",
)
#: What is set for a migration, each step of which waits for locks for this long.
MIGRATION_SETTING = "lock_timeout = '10s'"


class Mode(abc.ABC):
    """Raises psycopg's own errors, unless a docstring says something else."""

    name: ClassVar[str]
    #: In whose words the statements are.
    compiler: ClassVar[Compiler]
    #: Whether those who wait listen on channels; if not, they poll.
    has_channels: ClassVar[bool]
    #: An expression of a number that no transaction had before.
    new_mark: ClassVar[str]
    #: The statements that follow the ``BEGIN`` of a transaction, each of which has one result.
    settings: Sequence[str] = ()

    @abc.abstractmethod
    def set_up(self, connection: psycopg.Connection[Any]) -> None:
        """Make a new connection, which commits each statement, one of a board."""

    @abc.abstractmethod
    def rows(self, connection: psycopg.Connection[Any], text: str, parameters: Mapping[str, Any]) -> list[Row]:
        """Execute one statement that is a transaction by itself, and return its rows."""

    @abc.abstractmethod
    def rows_of_transaction(self, connection: psycopg.Connection[Any], requests: Sequence[Request]) -> list[list[Row]]:
        """Execute statements that are one transaction, and return the rows of each."""

    def forget(self, connection: psycopg.Connection[Any]) -> None:  # noqa: B027, most remember nothing
        """A connection is about to be closed."""

    @abc.abstractmethod
    def migrating(
        self,
        connection: psycopg.Connection[Any],
        connect: Connect,
        table_names: TableNames,
        where: str,
        timeout: float,
    ) -> AbstractContextManager[None]:
        """Let this connection alone migrate these tables within the block.

        :raises BoardUnavailable: others did so for longer than ``timeout`` seconds.
        """

    @abc.abstractmethod
    def take(self, connection: psycopg.Connection[Any], step: Step) -> None:
        """Take one step of a migration."""

    @abc.abstractmethod
    def change_source(
        self, driver: UserConnection, connection: psycopg.Connection[Any], channel: str, event_channel: str
    ) -> ChangeSource:
        """Return a source that owns this connection."""
