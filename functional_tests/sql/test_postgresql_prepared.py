"""Statements that PostgreSQL prepares for a connection: when, and what happens when it has forgotten them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from harnesses.sql_harness import PostgresqlHarness
from servers.postgresql_servers import PostgresqlServer
from sqlalchemy import create_engine

from jobboard import AlreadyPosted, JobBoard, backend
from jobboard.backends.sql.server_database import ServerDatabase

pytest_plugins = ("harnesses.sql_fixtures",)

_TIMES = 8


@pytest.fixture
def harness(postgresql: PostgresqlServer) -> Iterator[PostgresqlHarness]:
    with PostgresqlHarness(postgresql.uri) as harness:
        yield harness


@contextlib.contextmanager
def _connection_of(board: JobBoard) -> Iterator[psycopg.Connection[Any]]:
    database: ServerDatabase = board._backend.database  # type: ignore[attr-defined]
    with database._borrow() as connection:
        yield connection


def _post_many(board: JobBoard) -> None:
    for _ in range(_TIMES):
        board.post("resize")


def _prepared_in(board: JobBoard) -> int:
    with _connection_of(board) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'jobboard%'")
    return int(count)


def test_a_statement_is_prepared_once(harness: PostgresqlHarness) -> None:
    board = harness.board()
    _post_many(board)
    _post_many(board)
    assert _prepared_in(board) == 1


def test_statements_that_the_server_has_forgotten_are_prepared_anew(harness: PostgresqlHarness) -> None:
    board = harness.board()
    _post_many(board)
    with _connection_of(board) as connection:
        connection.execute("DEALLOCATE ALL")
    _post_many(board)
    assert (board.job_count, _prepared_in(board)) == (2 * _TIMES, 1)


def test_posts_go_on_after_a_rollback(harness: PostgresqlHarness) -> None:
    board = harness.board()
    board.post("resize", key="taken")
    for _ in range(_TIMES):
        board.cancel(board.post("resize"))
    # psycopg ends all statements of a connection when it rolls back for the first time, if it has prepared some itself.
    with pytest.raises(AlreadyPosted):
        board.post("resize", key="taken")
    board.cancel(board.post("resize"))
    board.post("resize")
    assert board.job_count == 2


def test_nothing_is_prepared_where_the_engine_says_so(postgresql: PostgresqlServer) -> None:
    engine = create_engine(
        postgresql.uri.replace("postgresql:", "postgresql+psycopg:"), connect_args={"prepare_threshold": None}
    )
    with backend("unprepared", "postgresql", engine=engine) as board:
        _post_many(board)
        assert _prepared_in(board) == 0
