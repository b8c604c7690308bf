"""A board whose connections have sessions to themselves, on PostgreSQL itself: each statement is planned once."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from jobboard.backends.sql.change_source import ChangeSource
from jobboard.backends.sql.dialect import TableNames
from jobboard.backends.sql.planner import Step
from jobboard.backends.sql.postgresql.change_source import PostgresqlChangeSource
from jobboard.backends.sql.postgresql.migration_lock import wait_for_turn
from jobboard.backends.sql.postgresql.mode import (
    MIGRATION_SETTING,
    OFF,
    PLANNER_SETTINGS,
    SETTINGS,
    Connect,
    Mode,
    Request,
)
from jobboard.backends.sql.postgresql.prepared import PreparedStatement
from jobboard.backends.sql.postgresql.transaction import in_one_trip
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.user_connection import UserConnection

_SET_UP = "; ".join(
    f"SET {setting}"
    for setting in (
        # Whatever the environment, the user or the database is set to: every text, and backslashes as psycopg writes
        # those of bytes.
        "client_encoding = 'UTF8'",
        "standard_conforming_strings = on",
        # The statements that are transactions by themselves run at the level of all others.
        "default_transaction_isolation = 'read committed'",
        *SETTINGS,
        *PLANNER_SETTINGS,
        # The values make no difference: without a generic plan, each claim is planned anew, since its LIMIT is a
        # parameter, and that takes longer than the claim.
        "plan_cache_mode = force_generic_plan",
    )
)
_SET_UP_MIGRATION = "; ".join(f"SET {setting}" for setting in (*(f"{name} = on" for name in OFF), MIGRATION_SETTING))


class SessionMode(Mode):
    name = "session"
    compiler = PGDialect_psycopg()  # type: ignore[no-untyped-call]
    has_channels = True
    new_mark = "txid_current()"

    def __init__(self) -> None:
        self._statements: defaultdict[psycopg.Connection[Any], dict[str, PreparedStatement]] = defaultdict(dict)

    def set_up(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(_SET_UP)

    def rows(self, connection: psycopg.Connection[Any], text: str, parameters: Mapping[str, Any]) -> list[Row]:
        statements = self._statements[connection]
        statement = statements.get(text)
        if statement is None:
            statement = statements[text] = PreparedStatement(connection, text)
        return statement.rows(parameters)

    def rows_of_transaction(self, connection: psycopg.Connection[Any], requests: Sequence[Request]) -> list[list[Row]]:
        cursors = [connection.cursor() for _ in requests]
        with in_one_trip(connection):
            connection.execute("BEGIN")
            for cursor, (sql, parameters) in zip(cursors, requests, strict=True):
                cursor.execute(sql.encode(), parameters, prepare=True)
            connection.execute("COMMIT")
        return [cursor.fetchall() for cursor in cursors]

    def forget(self, connection: psycopg.Connection[Any]) -> None:
        self._statements.pop(connection, None)

    @contextlib.contextmanager
    def migrating(
        self,
        connection: psycopg.Connection[Any],
        connect: Connect,
        table_names: TableNames,
        where: str,
        timeout: float,
    ) -> Iterator[None]:
        key = int(table_names.fingerprint, 16)
        wait_for_turn(lambda: _try_lock(connection, key), where, timeout)
        try:
            # A statement that reads a whole table is to read it in its order. Tables in use are waited for.
            connection.execute(_SET_UP_MIGRATION)
            yield
        finally:
            if not connection.closed:
                connection.execute("SELECT pg_advisory_unlock(%s)", [key])

    def take(self, connection: psycopg.Connection[Any], step: Step) -> None:
        # A single statement is a transaction by itself; an index can't be made concurrently in any other.
        with connection.transaction() if len(step) > 1 else contextlib.nullcontext():
            for statement in step:
                connection.execute(statement.encode())

    def change_source(
        self, driver: UserConnection, connection: psycopg.Connection[Any], channel: str, event_channel: str
    ) -> ChangeSource:
        return PostgresqlChangeSource(driver, connection, channel, event_channel)


def _try_lock(connection: psycopg.Connection[Any], key: int) -> bool:
    return connection.execute("SELECT pg_try_advisory_lock(%s)", [key]).fetchone() == (True,)
