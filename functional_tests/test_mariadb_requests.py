"""What the MySQL backend sends to MariaDB in one request, and how it reads the reply."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pymysql
import pytest
from harnesses.sql_harness import MysqlHarness
from servers.base import HOST
from servers.mariadb_servers import MariadbServer
from sqlalchemy import create_engine

from jobboard import AlreadyPosted, ClaimLost, Job, JobBoard, JobState, Posting
from jobboard.backends.sql.mysql import replies
from jobboard.backends.sql.mysql.connection import connector
from jobboard.testing import Harness

pytest_plugins = ("harnesses.sql_fixtures",)

LONG = 600.0
#: Of every length that the protocol writes in its own way, and of every kind that a column can be.
_VALUES = (
    "NULL, 0, -7, 9223372036854775807, 1.5e0, 0.1e0, 2.5, 'é\\'\\\\', '', REPEAT('a', 250), REPEAT('b', 251),"
    " REPEAT('c', 65536), X'', X'00FF', REPEAT(X'FF', 17000000), DATE '2026-01-02', TIMESTAMP '2026-01-02 03:04:05.6'"
)


def test_rows_are_read_as_pymysql_reads_them(mariadb: MariadbServer) -> None:
    address: dict[str, Any] = {"host": HOST, "port": mariadb.port, "user": "root", "database": "jobs"}
    with closing(pymysql.connect(**address, autocommit=True)) as root, root.cursor() as cursor:
        cursor.execute("SET GLOBAL max_allowed_packet = 67108864")
    found = []
    for connect in (lambda: pymysql.connect(**address), lambda: connector(address, 30.0)(10.0)):
        with closing(connect()) as connection, connection.cursor() as cursor:
            for _ in range(2):
                cursor.execute(f"SELECT {_VALUES} UNION ALL SELECT {_VALUES}")
                found.append((cursor.description, cursor.fetchall()))
    assert found[2:] == found[:2]


@pytest.fixture
def harness(mariadb: MariadbServer) -> Any:
    with MysqlHarness(mariadb.uri) as harness:
        yield harness


@pytest.fixture
def board(harness: Harness) -> JobBoard:
    return harness.board()


def _locked(mariadb: MariadbServer, job: Job) -> Any:
    connection = mariadb.client()
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT id FROM jobboard_jobs WHERE uuid = %s FOR UPDATE", (job.uuid,))
        cursor.execute("UPDATE jobboard_jobs SET state = 3 WHERE uuid = %s", (job.uuid,))
    return closing(connection)


def test_a_repeated_post_does_not_wait_for_a_transaction_that_has_locked_its_job(
    mariadb: MariadbServer, board: JobBoard
) -> None:
    job = board.post("resize", key="k")
    with _locked(mariadb, job):
        begun = time.monotonic()
        assert board.post("resize", uuid=job.uuid) == job
        with pytest.raises(AlreadyPosted):
            board.post("resize", key="k")
        took = time.monotonic() - begun
    assert took < 8.0, "not even until the time-out of a lock, which is 10 seconds"


def test_a_batch_is_numbered_as_the_server_numbers_it(mariadb: MariadbServer, board: JobBoard) -> None:
    """Where several servers write, each numbers its rows in steps."""
    url = mariadb.uri.replace("mysql:", "mysql+pymysql:")
    stepping = {"init_command": "SET auto_increment_increment = 3, auto_increment_offset = 2"}
    engine = create_engine(url, connect_args=stepping)
    with JobBoard(board.name, board._backend.__class__(board.name, board._backend.address, engine=engine)) as stepped:
        jobs = stepped.post_many([Posting("resize") for _ in range(5)])
        assert [[line.kind for line in job.history] for job in jobs] == [["POSTED"]] * 5
        assert stepped.claim_next("alice", limit=5, expiry=LONG) == jobs
        assert not any(stepped.consume_many(jobs, "alice"))
    engine.dispose()
    assert board.audit() == []


def test_a_batch_of_which_one_claim_is_lost_is_consumed_without_it(board: JobBoard) -> None:
    board.post_many([Posting("resize") for _ in range(3)])
    jobs = board.claim_next("alice", limit=3, expiry=LONG)
    board.release(jobs[1], reason="stuck")
    lost = board.consume_many(jobs, "alice")
    assert [type(error) for error in lost] == [type(None), ClaimLost, type(None)]
    assert [job.state for job in jobs] == [JobState.COMPLETE, JobState.UNCLAIMED, JobState.COMPLETE]


def test_where_there_are_no_compound_statements_several_are_sent(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on MySQL."""
    monkeypatch.setattr(replies, "is_mariadb", lambda connection: False)
    board = harness.board()
    jobs = board.post_many([Posting("resize"), Posting("resize", delay=LONG), Posting("crop", key="k")])
    with pytest.raises(AlreadyPosted):
        board.post("crop", key="k")
    [first] = board.claim_next("alice", names=["resize"], expiry=LONG)
    [third] = board.claim_next("alice", limit=2, expiry=LONG)
    assert [first, third] == [jobs[0], jobs[2]]
    assert board.claim_next("alice") == []
    assert not any(board.consume_many([first, third], "alice"))
    with pytest.raises(ClaimLost):
        board.consume(first, "bob")
    assert [job.state for job in jobs] == [JobState.COMPLETE, JobState.DELAYED, JobState.COMPLETE]
    assert board.audit() == []
