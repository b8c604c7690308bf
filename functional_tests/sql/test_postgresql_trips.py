"""Statements that are sent together: a process that is frozen after them keeps its locks for ten seconds at most."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import psycopg
import pytest
from servers.postgresql_servers import PostgresqlServer
from sqlalchemy import text

from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.postgresql.driver import PostgresqlDriver
from jobboard.backends.sql.postgresql.transaction import PostgresqlTransaction, in_one_trip
from jobboard.backends.sql.statement import Statement
from jobboard.testing import eventually

pytest_plugins = ("harnesses.sql_fixtures",)

_ASK = Statement(text("SELECT CAST(:number AS int)"))
_MANY = [{"number": number} for number in range(3)]


def _together(transaction: PostgresqlTransaction) -> None:
    with transaction.together():
        for _ in range(3):
            transaction.run_many(_ASK, _MANY)


_WAYS: list[Callable[[PostgresqlTransaction], object]] = [
    _together,
    lambda transaction: transaction.run_many(_ASK, _MANY),
    lambda transaction: transaction.rows_of_each([_ASK], _MANY),
]


@pytest.mark.parametrize("send", _WAYS, ids=["together", "many", "each"])
def test_the_server_ends_a_transaction_that_is_idle_after_a_trip(
    postgresql: PostgresqlServer, send: Callable[[PostgresqlTransaction], object]
) -> None:
    dialect = Dialect(PostgresqlDriver.compiler, list)
    with ExitStack() as stack, postgresql.client() as client:

        def leave_idle() -> int:
            connection: psycopg.Connection[Any] = stack.enter_context(closing(postgresql.client()))
            connection.execute("SET idle_in_transaction_session_timeout = '300ms'")
            connection.execute("BEGIN")
            send(PostgresqlTransaction(connection.cursor(), dialect, 0, 0.0))
            return connection.info.backend_pid

        pids = [leave_idle() for _ in range(20)]
        left = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY (%s)"
        eventually(lambda: client.execute(left, [pids]).fetchone() == (0,))


def test_a_connection_that_breaks_in_a_trip_is_told_once(
    postgresql: PostgresqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        postgresql.client() as connection,
        pytest.raises(psycopg.OperationalError, match="terminating connection"),
        in_one_trip(connection),
    ):
        connection.execute("SELECT pg_terminate_backend(pg_backend_pid())").fetchall()
        connection.execute("SELECT 1").fetchall()
    assert [record.message for record in caplog.records if record.name == "psycopg"] == []
