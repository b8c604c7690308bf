"""A board that leaves nothing in sessions, and asks of PostgreSQL only what its relatives have too.

It is for what gives each transaction another session (PgBouncer with ``pool_mode = transaction``), and for databases
that speak like PostgreSQL. There are no places of rows (``ctid``), no channels, no locks but those of rows, and no
prepared statements; settings are those of one transaction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from jobboard.backends.sql.change_source import ChangeSource
from jobboard.backends.sql.dialect import TableNames
from jobboard.backends.sql.planner import Step
from jobboard.backends.sql.postgresql.migration_lock import locked_row
from jobboard.backends.sql.postgresql.mode import MIGRATION_SETTING, Connect, Mode, Request
from jobboard.backends.sql.postgresql.polling import PollingChangeSource
from jobboard.backends.sql.postgresql.script import run_script
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.user_connection import UserConnection
from jobboard.errors import BoardUnavailable

_LEVEL = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
#: What can't be part of a transaction.
_CONCURRENTLY = " CONCURRENTLY "


class DistributedCompiler(PGDialect_psycopg):
    """Writes PostgreSQL's words, but for the statements that have others."""

    kinds = ("distributed", "postgresql")


class DistributedMode(Mode):
    """
    :param settings: those of each transaction.
    """

    name = "distributed"
    compiler = DistributedCompiler()  # type: ignore[no-untyped-call]
    has_channels = False
    # Of 9 * 10^15 numbers, none comes twice.
    new_mark = "CAST(floor(random() * 9e15) AS bigint)"

    def __init__(self, settings: Sequence[str]) -> None:
        self.settings = [f"SET LOCAL {setting}" for setting in settings]

    def set_up(self, connection: psycopg.Connection[Any]) -> None:
        if connection.info.parameter_status("client_encoding") != "UTF8":
            # Those that the board makes itself are made so.
            raise BoardUnavailable("the engine's connections can't write every text: make it with client_encoding=utf8")
        # A message is read before any setting in it takes effect, so this one can't be part of it.
        if connection.info.parameter_status("standard_conforming_strings") == "off":
            raise BoardUnavailable("this user has standard_conforming_strings = off: ALTER ROLE ... SET it to on")
        connection.prepare_threshold = None

    def rows(self, connection: psycopg.Connection[Any], text: str, parameters: Mapping[str, Any]) -> list[Row]:
        return self.rows_of_transaction(connection, [(text, parameters)])[0]

    def rows_of_transaction(self, connection: psycopg.Connection[Any], requests: Sequence[Request]) -> list[list[Row]]:
        return run_script(connection, [_LEVEL, *self.settings], requests)

    @contextlib.contextmanager
    def migrating(
        self,
        connection: psycopg.Connection[Any],
        connect: Connect,
        table_names: TableNames,
        where: str,
        timeout: float,
    ) -> Iterator[None]:
        with contextlib.closing(connect(timeout)) as other, locked_row(other, table_names, where, timeout):
            yield

    def take(self, connection: psycopg.Connection[Any], step: Step) -> None:
        if len(step) == 1 and _CONCURRENTLY in step[0]:
            connection.execute(step[0].encode())
            return
        with connection.transaction():
            connection.execute(f"SET LOCAL {MIGRATION_SETTING}".encode())
            for statement in step:
                connection.execute(statement.encode())

    def change_source(
        self, driver: UserConnection, connection: psycopg.Connection[Any], channel: str, event_channel: str
    ) -> ChangeSource:
        return PollingChangeSource(driver, connection, self.rows)
