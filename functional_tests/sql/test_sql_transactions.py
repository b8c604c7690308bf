"""Posting and consuming in a transaction of the user's own, on each SQL store."""

from __future__ import annotations

import math
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from harnesses.sql_harness import MysqlHarness
from harnesses.sql_site import Place
from pymysql.constants import CLIENT
from servers.mariadb_servers import MariadbServer
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

import jobboard
from jobboard import AlreadyPosted, ClaimLost, Job, JobBoard, JobState, LogBook, Posting
from jobboard.board import client_of
from jobboard.errors import BoardUnavailable, NotSupported, TransactionUndone
from jobboard.testing import eventually

pytest_plugins = ("harnesses.sql_places",)
pytestmark = pytest.mark.in_turn(1)

LONG = 600.0


@pytest.fixture
def board(place: Place) -> JobBoard:
    return place.harness.board()


# -- posting -----------------------------------------------------------------------------------------------------------


def test_a_job_is_there_if_the_transaction_commits(place: Place, board: JobBoard, other: JobBoard) -> None:
    with closing(place.connect()) as connection:
        job = board.post("resize", details={"n": 1}, key="k", connection=connection)
        assert other.job_count == 0
        connection.commit()
    assert [(found.uuid, found.details) for found in other.iterjobs()] == [(job.uuid, {"n": 1})]
    assert [line.kind for line in job.history] == ["POSTED"]


def test_a_job_is_not_there_if_the_transaction_is_rolled_back(place: Place, board: JobBoard) -> None:
    with closing(place.connect()) as connection:
        board.post("resize", book=LogBook("journal"), key="k", connection=connection)
        connection.rollback()
    assert board.job_count == 0
    assert board.post("resize", key="k").record.state is JobState.UNCLAIMED


def test_what_the_user_wrote_beside_it_shares_its_fate(place: Place, board: JobBoard) -> None:
    with closing(place.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("DROP TABLE IF EXISTS orders")
        cursor.execute("CREATE TABLE orders (id INTEGER)")
        connection.commit()
        for end in (connection.rollback, connection.commit):
            cursor.execute("INSERT INTO orders VALUES (7)")
            board.post("ship", connection=connection)
            end()
            cursor.execute("SELECT count(*) FROM orders")
            assert cursor.fetchone()[0] == board.job_count
        assert board.job_count == 1
        connection.rollback()


def test_it_takes_a_connection_and_a_session_of_sqlalchemy(place: Place, board: JobBoard) -> None:
    engine = create_engine(place.engine_url, poolclass=NullPool)
    with engine.begin() as connection:
        board.post("by begin", connection=connection)
    with engine.connect() as connection:
        board.post("by commit", connection=connection)
        connection.commit()
    with engine.connect() as connection:
        board.post("forgotten", connection=connection)
    with Session(engine) as session, session.begin():
        board.post_many([Posting("by session"), Posting("by session")], connection=session)
    engine.dispose()
    assert [job.name for job in board.iterjobs()] == ["by begin", "by commit", "by session", "by session"]


@pytest.mark.parametrize("end", ["commit", "rollback"])
@pytest.mark.parametrize("if_exists", ["raise", "keep"])
def test_who_posts_a_key_waits_for_the_transaction_that_has_posted_it(
    place: Place, board: JobBoard, other: JobBoard, end: str, if_exists: Any
) -> None:
    """A key that was never committed is not taken, also not for as long as ``key_for`` says."""
    with closing(place.connect()) as connection, ThreadPoolExecutor(1) as pool:
        first = board.post("report", key="k", key_for=LONG, connection=connection)
        posted = pool.submit(other.post, "report", key="k", if_exists=if_exists, key_for=LONG)
        with pytest.raises(TimeoutError):
            posted.result(0.5)
        getattr(connection, end)()
        if (end, if_exists) == ("commit", "raise"):
            with pytest.raises(AlreadyPosted):
                posted.result(60)
        else:
            assert (posted.result(60).uuid == first.uuid) == (end == "commit")
    [live] = board.iterjobs()
    board.claim(live, "alice")
    board.consume(live, "alice")
    assert board.post("report", key="k", if_exists="keep").uuid == live.uuid
    assert board.audit() == []


@pytest.mark.parametrize(
    ("place", "level"),
    [("postgresql", "READ COMMITTED"), ("mariadb", "READ COMMITTED"), ("mariadb", "REPEATABLE READ")],
    indirect=["place"],
)
def test_of_three_transactions_that_post_a_key_the_first_one_wins(place: Place, board: JobBoard, level: str) -> None:
    """Each had begun, and looked at the database, before the first one posted."""
    engine = create_engine(place.engine_url, isolation_level=level, poolclass=NullPool)

    def post(connection: Connection, if_exists: Any) -> Job:
        with connection.begin():
            connection.execute(text("SELECT count(*) FROM jobboard_jobs"))
            has_begun.wait(60)
            return board.post("resize", key="k", if_exists=if_exists, connection=connection)

    has_begun = Barrier(3)
    with ExitStack() as stack:
        first, *others = (stack.enter_context(engine.connect()) for _ in range(3))
        pool = stack.enter_context(ThreadPoolExecutor(2))
        with first.begin():
            job = board.post("resize", key="k", connection=first)
            kept, raised = (pool.submit(post, *each) for each in zip(others, ("keep", "raise"), strict=True))
            has_begun.wait(60)
            with pytest.raises(TimeoutError):
                kept.result(0.3)
        assert kept.result(60).uuid == job.uuid
        with pytest.raises(AlreadyPosted):
            raised.result(60)
    assert [each.uuid for each in board.iterjobs()] == [job.uuid]


def test_a_key_that_is_taken_leaves_the_users_transaction_usable(place: Place, board: JobBoard) -> None:
    live = board.post("resize", key="k")
    with closing(place.connect()) as connection:
        first = board.post("resize", connection=connection)
        with pytest.raises(AlreadyPosted):
            board.post_many([Posting("resize"), Posting("resize", key="k")], connection=connection)
        board.post("resize", key="k", if_exists="keep", connection=connection)
        connection.commit()
    assert [job.uuid for job in board.iterjobs()] == [live.uuid, first.uuid]


@pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)
def test_a_transaction_that_met_a_deadlock_can_be_run_again(place: Place, board: JobBoard) -> None:
    def go_on(connection: Any, key: str) -> str:
        try:
            board.post("resize", key=key, connection=connection)
            connection.commit()
        except TransactionUndone:
            connection.rollback()
            return "undone"
        return "done"

    with closing(place.connect()) as mine, closing(place.connect()) as theirs, ThreadPoolExecutor(2) as threads:
        board.post("resize", key="a", connection=mine)
        board.post("resize", key="b", connection=theirs)
        assert sorted(threads.map(go_on, (mine, theirs), ("b", "a"))) == ["done", "undone"]
        assert sorted(job.key or "" for job in board.iterjobs()) == ["a", "b"]


def test_a_wait_of_another_client_wakes_when_it_is_committed(place: Place, board: JobBoard, other: JobBoard) -> None:
    with client_of(other).waiter() as waiter, closing(place.connect()) as connection:
        assert waiter.ready_in() is None
        board.post("resize", connection=connection)
        assert waiter.ready_in() is None
        connection.commit()
        waiter.wait(30)
        eventually(lambda: waiter.ready_in() == 0.0)


# -- consuming ---------------------------------------------------------------------------------------------------------


def test_a_job_is_consumed_if_the_transaction_commits(place: Place, board: JobBoard, other: JobBoard) -> None:
    board.post("resize")
    [job] = board.claim_next("alice", expiry=LONG)
    with closing(place.connect()) as connection:
        board.consume(job, "alice", {"rows": 3}, connection=connection)
        assert other.get(job.uuid).record.state is JobState.CLAIMED
        connection.commit()
    assert (job.state, job.result) == (JobState.COMPLETE, {"rows": 3})
    with pytest.raises(ClaimLost):
        board.consume(job, "alice")


def test_the_board_is_not_tidied_beside_the_transaction(place: Place, board: JobBoard) -> None:
    """On SQLite that would wait for the transaction, and the transaction for it."""
    job = board.post("resize")
    board.claim(job, "alice", LONG)
    client = client_of(board)
    client._tidied_at = -math.inf
    with closing(place.connect()) as connection:
        board.consume(job, "alice", connection=connection)
        connection.commit()
    assert client._tidied_at == -math.inf


def test_a_job_may_be_younger_than_the_transaction(place: Place, board: JobBoard) -> None:
    with closing(place.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT count(*) FROM jobboard_jobs")
        cursor.fetchall()
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        board.consume(job, "alice", connection=connection)
        connection.commit()
    assert job.state is JobState.COMPLETE


def test_a_job_stays_claimed_if_the_transaction_is_rolled_back(place: Place, board: JobBoard) -> None:
    board.post("resize")
    [job] = board.claim_next("alice", expiry=LONG)
    with closing(place.connect()) as connection:
        board.consume(job, "alice", connection=connection)
        connection.rollback()
    assert job.state is JobState.CLAIMED
    board.consume(job, "alice")


def test_a_claim_that_is_lost_is_refused_in_the_transaction(place: Place, board: JobBoard, other: JobBoard) -> None:
    board.post("resize")
    [job] = board.claim_next("alice", expiry=LONG)
    other.release(job.uuid, reason="its host is gone")
    with closing(place.connect()) as connection:
        with pytest.raises(ClaimLost):
            board.consume(job, "alice", connection=connection)
        board.post("next", connection=connection)
        connection.commit()
    assert [found.name for found in board.iterjobs()] == ["resize", "next"]


def test_a_claim_that_is_over_is_refused_though_nobody_took_it_back(place: Place, board: JobBoard) -> None:
    board.post("resize")
    [job] = board.claim_next("alice", expiry=0.05)
    eventually(lambda: _is_over(place, board, job))
    assert job.attempts == 1


def _is_over(place: Place, board: JobBoard, job: Any) -> bool:
    with closing(place.connect()) as connection:
        try:
            board.consume(job, "alice", connection=connection, token=1)
        except ClaimLost:
            return True
        finally:
            connection.rollback()
    return False


def test_others_are_not_held_up_while_the_transaction_lasts(place: Place, board: JobBoard, other: JobBoard) -> None:
    if board.store == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    board.post_many([Posting("resize") for _ in range(3)])
    first, second = board.claim_next("alice", limit=2, expiry=LONG)
    with closing(place.connect()) as connection:
        board.consume(first, "alice", connection=connection)
        board.post("resize", connection=connection)
        assert {verdict.name for verdict in board.extend_many([first, second], "alice", LONG)} == {"DONE"}
        [third] = other.claim_next("bob", limit=5, expiry=LONG)
        other.consume(third, "bob")
        board.consume(second, "alice")
        assert other.stats().claimed == 1
        connection.rollback()
    board.consume(first, "alice")
    assert (board.job_count, board.audit()) == (0, [])


def test_a_post_beside_the_job_does_not_wait_for_the_transaction(
    place: Place, board: JobBoard, other: JobBoard
) -> None:
    """At REPEATABLE READ, MariaDB locks the gap before a row that is found by another index than the primary one."""
    if board.store == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    last = "f" * 8
    job = board.post("resize", uuid=f"{last}-0000-4000-8000-000000000002")
    board.claim(job, "alice", LONG)
    with closing(place.connect()) as connection:
        board.consume(job, "alice", connection=connection)
        other.post("resize", uuid=f"{last}-0000-4000-8000-000000000001")
        connection.rollback()
    assert other.job_count == 2


@pytest.mark.parametrize("key_for", [None, LONG])
@pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)
def test_others_post_keys_beside_that_of_the_job(
    place: Place, board: JobBoard, other: JobBoard, key_for: float | None
) -> None:
    job = board.post("resize", key="k", key_for=key_for)
    board.claim(job, "alice", LONG)
    with closing(place.connect()) as connection:
        board.consume(job, "alice", connection=connection)
        for key in "jl":
            other.post("resize", key=key, key_for=LONG)
        connection.rollback()
    assert other.job_count == 3


def test_a_key_outlives_the_retention_of_a_job_that_ended_in_the_transaction(place: Place) -> None:
    board = place.harness.board(retention=0.0)
    with closing(place.connect()) as connection:
        for key_for in (None, LONG):
            job = board.post("resize", key="k", key_for=key_for)
            board.claim(job, "alice", LONG)
            board.consume(job, "alice", connection=connection)
            connection.commit()
    assert board.post("resize", key="k", if_exists="keep").uuid == job.uuid
    assert board.audit() == []


def test_a_claim_is_not_taken_back_under_a_transaction_that_ends_it(
    place: Place, board: JobBoard, other: JobBoard
) -> None:
    if board.store == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    board.post("resize")
    with closing(place.connect()) as connection:
        [job] = board.claim_next("alice", expiry=1.0)
        board.consume(job, "alice", "done", connection=connection)
        eventually(lambda: (other._handles.reader.row(job.uuid).expires_at or 0) < other._backend.now())
        assert other.claim_next("bob") == []
        assert list(other.wait(0.2)) == []
        connection.commit()
    assert (job.state, job.result) == (JobState.COMPLETE, "done")


def test_a_connection_of_pymysql_may_take_several_statements_at_once(mariadb: MariadbServer) -> None:
    """Then changes are sent together; none of them may be left over, or outlive a part that was undone."""
    with MysqlHarness(mariadb.uri) as harness:
        board = harness.board()
        job = board.post("resize", key="k")
        board.claim(job, "alice", LONG)
        with closing(mariadb.client(client_flag=CLIENT.MULTI_STATEMENTS)) as connection:
            connection.autocommit(False)
            posted = board.post_many([Posting("resize") for _ in range(3)], connection=connection)
            with pytest.raises(AlreadyPosted):
                board.post_many([Posting("resize"), Posting("resize", key="k")], connection=connection)
            board.consume(job, "alice", connection=connection)
            connection.commit()
        assert [found.uuid for found in board.iterjobs()] == [found.uuid for found in posted]
        assert ([len(found.history) for found in posted], board.audit()) == ([1, 1, 1], [])


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_a_connection_that_commits_by_itself_is_refused(place: Place, board: JobBoard) -> None:
    with closing(place.connect()) as connection:
        if board.store == "sqlite":
            connection.isolation_level = None
        elif board.store == "mysql":
            connection.autocommit(True)
        else:
            connection.autocommit = True
        with pytest.raises(ValueError, match="begin a transaction first"):
            board.post("resize", connection=connection)
    assert board.job_count == 0


@pytest.mark.parametrize("connection", [7, "postgresql://", object()])
def test_what_is_no_connection_is_refused(board: JobBoard, connection: Any) -> None:
    with pytest.raises(TypeError, match="connection must be"):
        board.post("resize", connection=connection)


def test_a_connection_to_another_database_is_refused(place: Place, board: JobBoard, tmp_path: Path) -> None:
    with closing(place.connect()) as connection:
        cursor = connection.cursor()
        if board.store == "sqlite":
            with jobboard.backend(board.name, f"sqlite:///{tmp_path}/other.db"):
                pass
            with (
                closing(sqlite3.connect(tmp_path / "other.db", isolation_level="IMMEDIATE")) as stranger,
                pytest.raises(ValueError, match="another database"),
            ):
                board.post("resize", connection=stranger)
            return
        if board.store == "mysql":
            cursor.execute("CREATE DATABASE IF NOT EXISTS others")
            cursor.execute("USE others")
        else:
            cursor.execute("SET search_path = nowhere")
        with pytest.raises(ValueError, match=r"another database|no tables"):
            board.post("resize", connection=connection)


@pytest.mark.parametrize("place", ["postgresql", "mariadb"], indirect=True)
def test_a_connection_may_break_while_the_board_looks_for_its_tables(place: Place, board: JobBoard) -> None:
    if board.store == "mysql":
        whoami, lock, end = "SELECT connection_id()", "LOCK TABLES jobboard_meta WRITE", "KILL %s"
        waits = "SELECT count(*) FROM information_schema.processlist WHERE id = %s AND state LIKE 'Waiting for table%%'"
    else:
        whoami, lock, end = "SELECT pg_backend_pid()", "LOCK TABLE jobboard_meta", "SELECT pg_terminate_backend(%s)"
        waits = "SELECT count(*) FROM pg_locks WHERE pid = %s AND NOT granted"

    with closing(place.connect()) as mine, closing(place.connect()) as theirs, ThreadPoolExecutor(1) as pool:
        my, their = mine.cursor(), theirs.cursor()
        my.execute(whoami)
        number = my.fetchone()
        their.execute(lock)
        posted = pool.submit(board.post_many, [Posting("resize"), Posting("resize")], connection=mine)

        def is_waiting() -> bool:
            their.execute(waits, number)
            return their.fetchone() == (1,)

        eventually(is_waiting, 60)
        their.execute(end, number)
        with pytest.raises(TransactionUndone):
            posted.result(60)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_file_that_is_locked_is_not_taken_for_another_database(place: Place, board: JobBoard) -> None:
    path = place.engine_url.removeprefix("sqlite:///")
    with closing(place.connect()) as theirs, closing(sqlite3.connect(path, timeout=0)) as mine:
        theirs.execute("BEGIN IMMEDIATE")
        mine.execute("BEGIN")
        with pytest.raises(BoardUnavailable, match="is locked"):
            board.post("resize", connection=mine)


def test_other_stores_say_that_they_cannot() -> None:
    with jobboard.backend("board", "memory://transactions") as board:
        assert not board.capabilities.transactions
        with pytest.raises(NotSupported, match="memory board can't take part"):
            board.post("resize", connection=object())
        assert board.job_count == 0
