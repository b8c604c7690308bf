"""What the MySQL backend sends to MariaDB in one request, and how it reads the reply."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pymysql
import pytest
from harnesses.fixtures import a_board
from harnesses.sql_harness import MysqlHarness
from servers.base import HOST
from servers.mariadb_servers import MariadbServer
from sqlalchemy import create_engine

from jobboard import AlreadyPosted, ClaimLost, Job, JobBoard, JobState, Posting, fetch
from jobboard.backends.sql.mysql import replies
from jobboard.backends.sql.mysql.connection import connector
from jobboard.testing import Harness
from jobboard.testing.deadline import eventually

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
    for connect in (lambda: pymysql.connect(**address), lambda: connector([address], 30.0)(10.0)):
        with closing(connect()) as connection, connection.cursor() as cursor:
            for _ in range(2):
                cursor.execute(f"SELECT {_VALUES} UNION ALL SELECT {_VALUES}")
                found.append((cursor.description, cursor.fetchall()))
    assert found[2:] == found[:2]


@pytest.fixture
def harness(mariadb: MariadbServer) -> Any:
    with MysqlHarness(mariadb.uri) as harness:
        yield harness


board = a_board()


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


def test_the_server_parses_a_claim_and_a_consume_once_for_each_connection(
    mariadb: MariadbServer, board: JobBoard
) -> None:
    def counted() -> list[int]:
        with mariadb.client() as client, client.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Com_%e_sql'")
            found = dict(cursor.fetchall())
        return [int(found[name]) for name in ("Com_prepare_sql", "Com_execute_sql")]

    board.post_many([Posting("resize") for _ in range(20)])
    before = counted()
    for job in [board.claim_next("alice", names=names, expiry=LONG)[0] for names in [None, ["resize"]] * 5]:
        board.consume(job, "alice")
    assert [after - was for after, was in zip(counted(), before, strict=True)] == [3, 20]


@pytest.fixture
def full(mariadb: MariadbServer) -> Iterator[None]:
    """A server that has as many prepared statements as it may have."""
    for most in ("0", "DEFAULT"):
        with mariadb.client() as client, client.cursor() as cursor:
            cursor.execute(f"SET GLOBAL max_prepared_stmt_count = {most}")
        if most == "0":
            yield


@pytest.mark.usefixtures("full")
def test_where_the_server_has_too_many_prepared_statements_they_are_sent_as_they_are(board: JobBoard) -> None:
    jobs = board.post_many([Posting("resize") for _ in range(4)])
    _work_off(board, jobs)


def test_where_a_proxy_changes_the_session_statements_are_sent_as_they_are(
    mariadb: MariadbServer, board: JobBoard
) -> None:
    with fetch(board.name, mariadb.uri, pool_size=1) as one:
        jobs = one.post_many([Posting("resize") for _ in range(6)])
        _work_off(one, jobs[:2])
        database: Any = one._backend.database  # type: ignore[attr-defined]
        with database._borrow() as connection, connection.cursor() as cursor:
            for name in ("claim", "consume"):
                cursor.execute(f"DEALLOCATE PREPARE jobboard_{name}")
        _work_off(one, jobs[2:])


def _work_off(board: JobBoard, jobs: list[Job]) -> None:
    for job in jobs:
        assert board.claim_next("alice", expiry=LONG) == [job]
        board.consume(job, "alice")
        assert job.state is JobState.COMPLETE


@pytest.mark.parametrize(("names", "limit"), [(None, 1), (["resize"], 1), (None, 3), (["resize", "crop"], 3)], ids=str)
def test_a_claim_reads_no_rows_of_jobs_that_were_claimed_lately(
    mariadb: MariadbServer, board: JobBoard, names: list[str] | None, limit: int
) -> None:
    def pages() -> int:
        with mariadb.client() as client, client.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'")
            return int(cursor.fetchone()[1])

    def is_short() -> bool:
        before = pages()
        assert len(board.claim_next("alice", names=names, limit=limit, expiry=LONG)) == limit
        return pages() - before < 900

    with mariadb.client() as reader, reader.cursor() as cursor:
        # While an old snapshot is read, the server keeps what is deleted in its indexes.
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        board.post_many([Posting("resize") for _ in range(1500)])
        board.consume_many(board.claim_next("alice", limit=900, expiry=LONG), "alice")
        # It may be deleting what other cases have left.
        eventually(is_short)
