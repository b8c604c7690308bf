"""A board behind PgBouncer."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from servers.pgbouncer_servers import PgbouncerServer
from servers.postgresql_servers import PostgresqlServer

from jobboard import BoardUnavailable, Conductor, Handlers, JobBoard, Posting, backend, fetch
from jobboard.backends.sql.postgresql.pooler import shares_sessions
from jobboard.board import client_of
from jobboard.testing import eventually

#: So many sessions of a pool are looked at.
SESSIONS = 6


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as server:
        yield server


def settings_of(connection: psycopg.Connection[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Return what a session says of itself: its settings, what it listens to, and what it has prepared."""
    # The name is that of the client, which PgBouncer itself sets; each transaction begins with a level of its own.
    return connection.execute(
        "SELECT name, setting FROM pg_settings WHERE source = 'session'"
        " AND name NOT IN ('application_name', 'transaction_isolation')"
        " UNION ALL SELECT 'listens', pg_listening_channels()"
        " UNION ALL SELECT 'prepared', name FROM pg_prepared_statements ORDER BY 1, 2"
    ).fetchall()


def settings_of_all(pgbouncer: PgbouncerServer) -> list[list[tuple[object, ...]]]:
    """Return what each of some sessions of the pool says of itself."""
    with ExitStack() as stack:
        clients = [stack.enter_context(pgbouncer.client()) for _ in range(SESSIONS)]
        for client in clients:
            client.execute("BEGIN")
        return [settings_of(client) for client in clients]


def mode_of(board: JobBoard) -> str:
    backend: Any = client_of(board).backend
    return str(backend.database.driver.mode.name)


def live_and_work(board: JobBoard) -> None:
    """Do on a board whatever might leave something in a session."""
    handlers, events = Handlers(), []
    handlers.handler("resize")(lambda job: job.details["n"])
    board.subscribe(events.append)
    board.limits.set(name="resize", running=3)
    conductor = Conductor("worker", board, handlers, concurrency=4)
    conductor.start()
    try:
        jobs = [board.post("resize", details={"n": n}) for n in range(20)]
        assert [job.get_result(timeout=30) for job in jobs] == list(range(20))
        board.post_many([Posting("other", key=f"k{n}") for n in range(10)])
        board.consume_many(board.claim_next("alice", names=["other"], limit=10), "alice")
        assert board.audit() == []
    finally:
        assert conductor.stop(timeout=30)
    eventually(lambda: len([event for event in events if event.kind == "CONSUMED"]) == 30)


@pytest.mark.parametrize("options", [{}, {"server_round_robin": 1, "min_pool_size": 4}], ids=["last", "in turn"])
def test_a_board_leaves_nothing_in_sessions_that_are_shared(
    postgresql: PostgresqlServer, caplog: pytest.LogCaptureFixture, options: dict[str, object]
) -> None:
    caplog.set_level(logging.INFO, logger="jobboard.backends.sql")
    with PgbouncerServer(postgresql, pool_mode="transaction", **options) as pgbouncer:
        before = settings_of_all(pgbouncer)
        with backend("shared", pgbouncer.uri) as board:
            assert mode_of(board) == "distributed"
            live_and_work(board)
            with postgresql.client() as client:
                assert client.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (0,)
        assert settings_of_all(pgbouncer) == before
    told = [record.getMessage() for record in caplog.records if "mode=distributed" in record.getMessage()]
    assert len(told) == 1
    assert "is behind a pooler that shares its sessions among clients" in told[0]


def test_sessions_are_found_to_be_shared_while_others_use_them(postgresql: PostgresqlServer) -> None:
    with PgbouncerServer(postgresql, pool_mode="transaction") as pgbouncer, pgbouncer.client() as other:
        other.execute("BEGIN")
        with backend("b", pgbouncer.uri) as board:
            assert mode_of(board) == "distributed"


def test_sessions_are_found_to_be_shared_whatever_a_busy_client_hides(postgresql: PostgresqlServer) -> None:
    """Of boards that asked five times in one way, about one of thirty was deceived."""
    is_over = threading.Event()

    def work(client: psycopg.Connection[Any]) -> None:
        while not is_over.wait(random.random() * 0.02):
            client.execute("SELECT pg_sleep(%s)", [random.random() * 0.02], prepare=False)

    with (
        PgbouncerServer(postgresql, pool_mode="transaction", default_pool_size=12) as pgbouncer,
        pgbouncer.client() as other,
        ThreadPoolExecutor(1) as executor,
    ):
        busy = executor.submit(work, other)
        try:
            for _ in range(100):
                with pgbouncer.client() as connection:
                    assert shares_sessions(connection, lambda _: pgbouncer.client(), "the pooler")
        finally:
            is_over.set()
        busy.result()


def test_a_pooler_that_shares_sessions_is_refused_by_name_if_the_board_wants_its_own(
    postgresql: PostgresqlServer,
) -> None:
    with PgbouncerServer(postgresql, pool_mode="transaction") as pgbouncer:
        before = settings_of_all(pgbouncer)
        for _ in range(3):
            with pytest.raises(BoardUnavailable, match="pool_mode = session"):
                fetch("b", f"{pgbouncer.uri}?mode=session").connect()
        assert settings_of_all(pgbouncer) == before


@pytest.mark.parametrize("mode", ["auto", "session", "distributed"])
def test_a_pooler_without_transactions_is_refused_by_name(postgresql: PostgresqlServer, mode: str) -> None:
    with PgbouncerServer(postgresql, pool_mode="statement") as pgbouncer:
        with pgbouncer.client() as other:
            before = settings_of(other)
        with pytest.raises(BoardUnavailable, match="pool_mode = session or transaction"):
            fetch("b", f"{pgbouncer.uri}?mode={mode}").connect()
        with pgbouncer.client() as other:
            assert settings_of(other) == before


def test_a_board_on_the_server_itself_has_sessions_of_its_own(
    postgresql: PostgresqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="jobboard.backends.sql")
    with backend("direct", postgresql.uri) as board:
        assert mode_of(board) == "session"
        board.post("resize")
    assert "mode=" not in caplog.text


def test_a_word_that_is_no_mode_is_refused(postgresql: PostgresqlServer) -> None:
    with pytest.raises(ValueError, match="must be one of auto, session, distributed; got 'quick'"):
        fetch("b", f"{postgresql.uri}?mode=quick")


def test_boards_of_both_modes_share_their_jobs(postgresql: PostgresqlServer) -> None:
    with (
        PgbouncerServer(postgresql, pool_mode="transaction") as pgbouncer,
        backend("both", pgbouncer.uri) as pooled,
        backend("both", postgresql.uri) as direct,
    ):
        for poster, worker in ((pooled, direct), (direct, pooled)):
            job = poster.post("resize")
            assert [found.uuid for found in worker.wait(30)] == [job.uuid]
            worker.consume_many(worker.claim_next("alice"), "alice")
            assert poster.get(job.uuid).wait(30)


def test_a_board_works_behind_a_pooler_that_gives_each_client_a_session(postgresql: PostgresqlServer) -> None:
    handlers = Handlers()
    handlers.handler("resize")(lambda job: job.details["n"])
    with PgbouncerServer(postgresql, pool_mode="session") as pgbouncer, backend("b", pgbouncer.uri) as board:
        assert mode_of(board) == "session"
        conductor = Conductor("worker", board, handlers, concurrency=2)
        conductor.start()
        try:
            jobs = [board.post("resize", details={"n": n}) for n in range(20)]
            assert [job.get_result(timeout=30) for job in jobs] == list(range(20))
        finally:
            assert conductor.stop(timeout=30)


def test_where_the_pooler_has_no_second_session_the_board_works_with_one(
    postgresql: PostgresqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        PgbouncerServer(postgresql, pool_mode="session", default_pool_size=1, query_wait_timeout=1) as pgbouncer,
        backend("b", pgbouncer.uri, pool_size=1) as board,
    ):
        assert board.stats().unclaimed == 0
    assert "pool_mode = session" in caplog.text
