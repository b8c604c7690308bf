"""How many statements it takes to take part in a transaction of the user's."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
from harnesses.sql_site import Site
from servers.base import HOST
from servers.proxy import Proxy

from jobboard import JobBoard, Posting, fetch

pytest_plugins = ("harnesses.sql_fixtures",)

LONG = 600.0

CALLS: dict[str, Callable[[JobBoard, Any, Any], Any]] = {
    "post": lambda board, connection, _: board.post("resize", details={"page": 1}, connection=connection),
    "post with a key": lambda board, connection, _: board.post("resize", key="k", connection=connection),
    "post that keeps": lambda board, connection, _: board.post(
        "crop", key="k", if_exists="keep", connection=connection
    ),
    "post with a delay": lambda board, connection, _: board.post("resize", delay=LONG, connection=connection),
    "post of three": lambda board, connection, _: board.post_many([Posting("resize")] * 3, connection=connection),
    "consume": lambda board, connection, job: board.consume(job, "alice", connection=connection),
}
#: On PostgreSQL, MariaDB and SQLite; SQLite's are no round trips.
STATEMENTS = {
    "post": (3, 7, 8),
    "post with a key": (3, 8, 9),
    "post that keeps": (3, 8, 9),
    "post with a delay": (3, 7, 8),
    "post of three": (9, 7, 12),
    "consume": (6, 7, 7),
}


def _held(board: JobBoard) -> Any:
    [job] = board.claim_next("alice", names=["held"])
    return job


@pytest.mark.parametrize("what", CALLS)
def test_it_takes_few_statements(site: Site, what: str) -> None:
    board = site.harness.board()
    board.post("held")
    with Proxy((HOST, site.server.port)) as proxy:
        place: dict[str, Any] = {"host": HOST, "port": proxy.port}
        connection: Any
        if site.is_postgresql:
            connection = psycopg.connect(**place, user="postgres", dbname="jobs")
        else:
            connection = pymysql.connect(**place, user="root", database="jobs", charset="utf8mb4")
        with connection, connection.cursor() as cursor:
            prepared = _held(board) if what == "consume" else None
            cursor.execute("SELECT 1")
            trips: set[int] = set()
            proxy.matters = lambda _request: bool(trips.add(proxy.replied))
            CALLS[what](board, connection, prepared)
            proxy.matters = lambda _request: True
            connection.commit()
    assert len(trips) == STATEMENTS[what][0 if site.is_postgresql else 1]


@pytest.mark.parametrize("what", CALLS)
def test_it_takes_few_statements_on_sqlite(tmp_path: Path, what: str) -> None:
    with fetch("b", f"sqlite:///{tmp_path}/jobs.db") as board:
        board.post("held")
        connection = sqlite3.connect(tmp_path / "jobs.db", isolation_level="IMMEDIATE")
        prepared = _held(board) if what == "consume" else None
        connection.execute("BEGIN IMMEDIATE")
        seen: list[str] = []
        connection.set_trace_callback(seen.append)
        CALLS[what](board, connection, prepared)
        connection.set_trace_callback(None)
        connection.commit()
        connection.close()
    assert len(seen) == STATEMENTS[what][2], seen
