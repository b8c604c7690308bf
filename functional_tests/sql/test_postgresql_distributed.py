"""The distributed mode on PostgreSQL itself: what it asks for while it waits, and how it finds rows by their keys."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from harnesses.sql_harness import DistributedHarness, PostgresqlHarness
from servers.postgresql_servers import PostgresqlServer

from jobboard import BoardUnavailable, Conductor, Handlers, JobBoard, JobState, Posting, fetch
from jobboard.backends.sql import job_statements
from jobboard.backends.sql.migration import migrate
from jobboard.backends.sql.postgresql import claiming, fast_path
from jobboard.backends.sql.postgresql.arrays import numbers, texts
from jobboard.backends.sql.postgresql.migration_lock import locked_row
from jobboard.backends.sql.postgresql.pages import page_of
from jobboard.backends.sql.postgresql.script import run_script
from jobboard.backends.sql.schema import CLAIMED
from jobboard.backends.sql.server_database import ServerDatabase
from jobboard.backends.sql.statement import Statement
from jobboard.board import client_of
from jobboard.testing import eventually

pytest_plugins = ("harnesses.sql_fixtures",)

LONG = 600.0


@pytest.fixture
def harness(postgresql: PostgresqlServer) -> Iterator[DistributedHarness]:
    with DistributedHarness(postgresql.uri) as harness:
        yield harness


def database_of(board: JobBoard) -> ServerDatabase:
    backend: Any = client_of(board).backend
    database: ServerDatabase = backend.database
    return database


@pytest.fixture
def logged(postgresql: PostgresqlServer) -> Iterator[None]:
    """Let the server log each request of the boards that are opened from now on."""
    with postgresql.client() as client:
        client.execute("ALTER DATABASE jobs SET log_statement = 'all'")
        yield
        client.execute("ALTER DATABASE jobs RESET log_statement")


def requests(postgresql: PostgresqlServer) -> int:
    log = (postgresql.folder / "log").read_text()
    return log.count("LOG:  statement: ") + log.count("LOG:  execute ")


@pytest.mark.usefixtures("logged")
def test_an_idle_conductor_asks_four_times_a_second_at_most(
    postgresql: PostgresqlServer, harness: DistributedHarness
) -> None:
    handlers = Handlers()
    handlers.add("resize", lambda _job: None)
    board = harness.board()
    conductor = Conductor("idle", board, handlers)
    conductor.start()
    try:
        assert board.post("resize").wait(20)

        def is_seldom() -> bool:
            before, began = requests(postgresql), time.monotonic()
            conductor.wait(4.0)
            return requests(postgresql) - before <= 4 * (time.monotonic() - began)

        # Looks become rarer within seconds.
        eventually(is_seldom, within=60)
    finally:
        conductor.stop(drain=False)


def test_a_post_of_another_client_ends_the_wait_of_an_idle_board(harness: DistributedHarness) -> None:
    board, found = harness.board(), list[str]()
    other = harness.board(board.name)
    with client_of(board).waiter():
        assert list(board.wait(1.0)) == []
        waiting = threading.Thread(target=lambda: found.extend(job.uuid for job in board.wait(30)))
        waiting.start()
        job = other.post("resize")
        waiting.join(30)
    assert found == [job.uuid]


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes_of(below)


def passed_over(database: ServerDatabase, statement: Statement, **parameters: Any) -> int:
    """Return how many rows a statement reads and leaves out; it must read an index."""
    sql, constants = statement.on(database.driver.dialect)
    given = {**constants, "board": database.board, **parameters}
    mode: Any = database.driver.mode  # type: ignore[attr-defined]
    with database._borrow() as connection:
        request = f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", given
        [[(plans,)]] = run_script(connection, mode.settings, [request])
    nodes = list(nodes_of(plans[0]["Plan"]))
    assert not [node for node in nodes if node["Node Type"] == "Seq Scan"]
    return sum(node.get("Rows Removed by Filter", 0) * node["Actual Loops"] for node in nodes)


@pytest.mark.parametrize("is_analyzed", [False, True], ids=["unknown", "known"])
def test_rows_are_found_by_their_keys_on_a_board_of_any_size(
    postgresql: PostgresqlServer, harness: DistributedHarness, is_analyzed: bool
) -> None:
    board = harness.board()
    for _ in range(3):
        board.post_many([Posting("resize") for _ in range(1000)])
    jobs = board.claim_next("alice", expiry=LONG, limit=20)
    if is_analyzed:
        with postgresql.client() as client:
            client.execute("VACUUM ANALYZE jobboard_jobs")
    database, names = database_of(board), frozenset({"resize"})
    claim: dict[str, Any] = {"who": "bob", "claim_id": "c", "expiry": LONG, "limit": 10}
    look = fast_path.asked_by(database.floors.look(names))
    ends = {
        "uuids": texts([job.uuid for job in jobs]),
        "whos": texts(["alice"] * len(jobs)),
        "tokens": numbers([1] * len(jobs)),
        "results": None,
        "retentions": numbers([60.0] * len(jobs)),
    }
    page = {"place": -(2**62), "id": 0, "size": 100}
    for statement, parameters in (
        (claiming.CLAIM_NEXT, {**claim, **look, "names": None}),
        (claiming.CLAIM_NEXT_OF_NAMES, {**claim, **look}),
        (claiming.CLAIM_NEXT_WITHIN_LIMITS, {**claim, **look}),
        (page_of(frozenset({CLAIMED}), False), page),
        (job_statements.COUNT, {}),
        (job_statements.CLAIMED_UNDER, {"claim_id": "c"}),
    ):
        # Those of the claimed jobs that are not wanted; nothing else of the board.
        assert passed_over(database, statement, **parameters) <= 60
    # Each has another token, so none is consumed.
    assert passed_over(database, fast_path.CONSUME, **ends) <= len(jobs)
    assert board.audit() == []


def test_an_error_in_a_message_undoes_all_of_it_and_leaves_the_connection_usable(harness: DistributedHarness) -> None:
    board = harness.board()
    job = board.post("resize", key="one")
    assert board.post("resize", key="one", if_exists="keep") == job
    database = database_of(board)
    with database._borrow() as connection:
        with pytest.raises(database.driver.error, match="division by zero"):
            run_script(connection, (), [("DELETE FROM jobboard_jobs", {}), ("SELECT 1 / %(by)s", {"by": 0})])
        assert database.driver.is_alive(connection)
        assert run_script(connection, (), [("SELECT 7 %% %(by)s, %(none)s", {"by": 4, "none": None})]) == [[(3, None)]]
    assert [found.uuid for found in board.iterjobs()] == [job.uuid]


def test_one_program_migrates_at_a_time(postgresql: PostgresqlServer, harness: DistributedHarness) -> None:
    driver: Any = database_of(harness.board()).driver
    with (
        postgresql.client() as client,
        locked_row(client, driver.dialect.table_names, driver.where, 1.0),
        pytest.raises(BoardUnavailable, match="another process migrates"),
    ):
        migrate(driver, 0.3)
    assert migrate(driver, 10.0).mended == ()


def test_several_programs_may_make_the_tables_at_the_same_moment(postgresql: PostgresqlServer) -> None:
    uri = f"{postgresql.uri}?mode=distributed&prefix=made_at_once_"
    boards, failed = [fetch(f"b{number}", uri) for number in range(6)], list[Exception]()

    def connect(board: JobBoard) -> None:
        try:
            board.connect()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=connect, args=[board]) for board in boards]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    try:
        assert failed == []
        for board in boards:
            board.post("resize")
    finally:
        for board in boards:
            board.close()


@pytest.mark.parametrize("mode", ["session", "distributed"])
def test_whose_schema_exists_needs_no_right_to_make_one(postgresql: PostgresqlServer, mode: str) -> None:
    team = f"team_{mode}"
    with postgresql.client() as client:
        client.execute(f"CREATE ROLE {team} LOGIN".encode())
        client.execute(f"CREATE SCHEMA {team} AUTHORIZATION {team}".encode())
    uri = postgresql.uri.replace("postgres@", f"{team}@")
    with fetch("b", f"{uri}?mode={mode}&schema={team}") as board:
        board.post("resize")


def test_a_board_that_was_made_in_one_mode_is_migrated_and_audited_in_the_other(postgresql: PostgresqlServer) -> None:
    with PostgresqlHarness(postgresql.uri) as harness, DistributedHarness(postgresql.uri) as other:
        board = harness.board()
        job = board.post("resize")
        (claimed,) = other.board(board.name).claim_next("alice")
        board.consume(claimed, "alice")
        assert (job.uuid, board.audit()) == (claimed.uuid, [])
        assert other.board(board.name).audit() == []


def test_jobs_are_posted_and_ended_in_a_transaction_of_the_users(
    postgresql: PostgresqlServer, harness: DistributedHarness
) -> None:
    board = harness.board()
    with postgresql.client() as connection:
        connection.autocommit = False
        job = board.post("resize", key="one", connection=connection)
        board.post_many([Posting("resize"), Posting("report", after=[job])], connection=connection)
        assert list(board.iterjobs()) == []
        connection.commit()
        claimed = board.claim_next("alice", limit=2)
        assert [found.name for found in claimed] == ["resize", "resize"]
        board.consume(claimed[0], "alice", "done", connection=connection)
        connection.rollback()
        assert claimed[0].state is JobState.CLAIMED
        board.consume(claimed[0], "alice", "done", connection=connection)
        connection.commit()
    assert [found.name for found in board.wait(20)] == ["report"]
    assert board.audit() == []
