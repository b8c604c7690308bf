"""A pytest plugin for the tests of transactions of the user's own: each SQL store, and how its users reach it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.mariadb_servers import MariadbServer
from servers.postgresql_servers import PostgresqlServer

from harnesses.sql_harness import MysqlHarness, PostgresqlHarness
from harnesses.sql_site import Place
from harnesses.sqlite_harness import SqliteHarness
from jobboard import JobBoard

pytest_plugins = ("harnesses.sql_fixtures",)


@pytest.fixture(params=["postgresql", "mariadb", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        path = tmp_path / "jobs.db"
        with SqliteHarness(path) as harness:
            yield Place(harness, f"sqlite:///{path}", lambda: sqlite3.connect(path, isolation_level="IMMEDIATE"))
        return
    server = request.getfixturevalue(request.param)
    if request.param == "postgresql":
        url = server.uri.replace("postgresql:", "postgresql+psycopg:")
        with PostgresqlHarness(server.uri) as harness:
            yield Place(harness, url, lambda: _psycopg(server))
    else:
        with MysqlHarness(server.uri) as harness:
            yield Place(harness, server.uri.replace("mysql:", "mysql+pymysql:"), lambda: _pymysql(server))


def _psycopg(server: PostgresqlServer) -> Any:
    client = server.client()
    client.autocommit = False
    return client


def _pymysql(server: MariadbServer) -> Any:
    client = server.client()
    client.autocommit(False)
    return client


@pytest.fixture
def other(place: Place, board: JobBoard) -> JobBoard:
    return place.harness.board(board.name)
