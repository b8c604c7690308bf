"""A board behind PgBouncer."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from servers.pgbouncer_servers import PgbouncerServer
from servers.postgresql_servers import PostgresqlServer

from jobboard import BoardUnavailable, Conductor, Handlers, backend, fetch


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as server:
        yield server


def settings_of(connection: psycopg.Connection[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Return what a session says of itself: its settings, what it listens to, and what it has prepared."""
    return connection.execute(
        "SELECT name, setting FROM pg_settings WHERE source = 'session'"
        " UNION ALL SELECT 'listens', pg_listening_channels()"
        " UNION ALL SELECT 'prepared', name FROM pg_prepared_statements ORDER BY 1, 2"
    ).fetchall()


@pytest.mark.parametrize("options", [{}, {"server_round_robin": 1, "min_pool_size": 4}], ids=["last", "in turn"])
@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_pooler_that_shares_sessions_is_refused_by_name_and_none_is_changed(
    postgresql: PostgresqlServer, mode: str, options: dict[str, object]
) -> None:
    with PgbouncerServer(postgresql, pool_mode=mode, **options) as pgbouncer:
        with pgbouncer.client() as other:
            before = settings_of(other)
        for _ in range(3):
            with pytest.raises(BoardUnavailable, match="pool_mode = session"):
                fetch("b", pgbouncer.uri).connect()
        with pgbouncer.client() as other:
            assert settings_of(other) == before


def test_a_pooler_that_shares_sessions_is_refused_while_others_use_it(postgresql: PostgresqlServer) -> None:
    with PgbouncerServer(postgresql, pool_mode="transaction") as pgbouncer, pgbouncer.client() as other:
        other.execute("BEGIN")
        with pytest.raises(BoardUnavailable, match="pool_mode = session"):
            fetch("b", pgbouncer.uri).connect()


def test_a_board_works_behind_a_pooler_that_gives_each_client_a_session(postgresql: PostgresqlServer) -> None:
    handlers = Handlers()
    handlers.handler("resize")(lambda job: job.details["n"])
    with PgbouncerServer(postgresql, pool_mode="session") as pgbouncer, backend("b", pgbouncer.uri) as board:
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
