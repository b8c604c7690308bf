"""What the backend's statements cost: by SQLite's steps and numbers of statements, not by plans or the clock."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from helpers.sql_seam import (
    back,
    backend_of,
    claim_next,
    claimed,
    consumption,
    fence_of,
    fill,
    opened,
    post,
    posting,
    renewal,
)

from jobboard import Every, JobBoard, Schedule
from jobboard.backends.rows import ClaimRequest, JobRow, Trashing
from jobboard.backends.sql import (
    SqliteBackend,
    job_statements,
    journal_statements,
    schedules,
)
from jobboard.backends.sql.schema import PLACES_OF_A_RANK, STATES
from jobboard.backends.sql.sqlite.database import DIALECT
from jobboard.backends.sql.sqlite.fast_path import BEFORE_POST, CLAIM_LINES, CONSUME_ALIKE, CONSUME_LINES, POST_LINES
from jobboard.backends.sql.sqlite.transaction import SqliteTransaction
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import Transaction
from jobboard.states import JobState
from jobboard.testing.contract.edge_case import fan_in


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteBackend]:
    with opened(tmp_path / "jobs.db") as backend:
        yield backend


#: The statements that one job, page or look needs, each measured beside a backlog.
STATEMENTS: dict[str, Statement] = {
    "claim_next": job_statements.CLAIM_NEXT.at_once,
    "the heads of a name": job_statements.HEADS_OF_NAME,
    "the next ready names": job_statements.FIRST_OF_NEXT_NAMES,
    "the first that are ready": job_statements.FIRST_READY,
    "is anything ready": job_statements.IS_READY,
    "is a name ready": job_statements.IS_NAME_READY,
    "the status": job_statements.STATUS,
    "before a post": BEFORE_POST,
    "what is due": job_statements.OVERDUE,
    "let go": job_statements.PROMOTE.at_once,
    "the next due": job_statements.NEXT_DUE,
    "posted": POST_LINES,
    "claimed": CLAIM_LINES,
    "consumed": CONSUME_LINES,
    "the ends of claims": CONSUME_ALIKE,
    "a fence": job_statements.LOCK,
    "fences": job_statements.LOCK_MANY,
    "a key": job_statements.FIND_KEY,
    "keys": job_statements.FIND_KEYS,
    "a replacement": job_statements.REPLACED_BY,
    "a page of a name": job_statements.PAGES_OF_NAME[1].of_place,
    "the later page of a name": job_statements.PAGES_OF_NAME[1].later,
    "history": job_statements.HISTORY,
    "the oldest": job_statements.OLDEST_UNCLAIMED,
    "trimming": journal_statements.TRIM_HISTORY,
    "events": journal_statements.EVENTS,
    "what is over": job_statements.OVER,
    "schedules that are due": schedules.DUE,
    "the next schedule": schedules.NEXT_AFTER_NOW,
    "the first page of schedules": schedules.HEAD,
    "schedules of one moment": schedules.AT,
    "later schedules": schedules.LATER,
    "schedules that are not due": schedules.NOT_DUE,
    **{f"a page of {state}": job_statements.PAGES[code].of_place for code, state in STATES.items()},
    **{f"a page of {state} after a place": job_statements.PAGES[code].later for code, state in STATES.items()},
}

#: What a scan or a sort of the backlog would cost: it must be seen.
DEAR: dict[str, Statement] = {
    "a scan": Statement(job_statements.select(job_statements.jobs.c.uuid).where(job_statements.jobs.c.reason == "x")),
    "a sort": Statement(
        job_statements.select(job_statements.jobs.c.uuid).order_by(job_statements.jobs.c.last_modified).limit(5)
    ),
}


#: Before the jobs of a normal priority.
_PLACE = -3 * PLACES_OF_A_RANK


def values_of(backend: SqliteBackend, job: JobRow) -> dict[str, Any]:
    """Return parameters that mean one job in the midst of others, or a few."""
    as_list = DIALECT.as_list
    (id,) = (
        backend.database._reader.get().execute("SELECT id FROM jobboard_jobs WHERE uuid = ?", (job.uuid,)).fetchone()
    )
    (last,) = backend.database._reader.get().execute("SELECT max(id) FROM jobboard_journal").fetchone()
    return {
        "board": backend.database.board, "now": time.time(), "limit": 5, "size": 5, "place": _PLACE, "id": id,
        "key": "k", "name": "b", "uuid": job.uuid, "uuids": as_list([job.uuid]), "ids": as_list([id]),
        "keys": as_list(["k"]),
        "who": "alice", "claim_id": "c", "due_at": 2e9, "least_token": 1, "token": 1, "result": None,
        "retain_until": 2e9, "first": id - 1, "last": last - 5,
        "at": time.time() + 3600.0,
    }  # fmt: skip


def step_count(backend: SqliteBackend, statement: Statement, values: dict[str, Any]) -> int:
    """Count the steps of a statement, and undo what it changed."""
    sql, constants = statement.on(DIALECT)
    connection = backend.database._writer.get()
    if statement is POST_LINES:
        values = {**values, "last": values["first"] + 3}
    connection.execute("BEGIN")
    try:
        return steps_of(connection, lambda: connection.execute(sql, {**values, **constants}).fetchall())
    finally:
        connection.execute("ROLLBACK")


def step_counts(backend: SqliteBackend, job: JobRow) -> dict[str, int]:
    values = values_of(backend, job)
    counts = {}
    for what, statement in {**STATEMENTS, **DEAR}.items():
        own = {**values, "id": 0} if "page" in what else values
        counts[what] = step_count(backend, statement, own)
        if "name" in what:
            counts[f"{what}, without jobs"] = step_count(backend, statement, {**own, "name": "b1"})
    return counts


def stock(backend: SqliteBackend, count: int) -> None:
    """Add this many jobs of each state, of three names, and schedules for later."""
    names = ("a", "b", "c")
    fill(backend, 3 * count, *names)
    backend.jobs.trash([Trashing(row.uuid, fence_of(row)) for row in claim_next(backend, limit=count)])
    backend.jobs.consume([consumption(row) for row in claim_next(backend, limit=count)])
    claim_next(backend, limit=count, expiry=3600.0)
    fill(backend, count, *names)
    backend.jobs.post([posting(names[n % 3], delay=3600.0 + n) for n in range(count)])
    with closing(sqlite3.connect(backend.database.path)) as connection, connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(jobboard_schedules)")]
        copied = ", ".join({"id": "id || n", "next_at": "next_at + n"}.get(name, name) for name in columns)
        connection.execute(
            "WITH RECURSIVE numbers(n) AS (SELECT (SELECT count(*) FROM jobboard_schedules)"
            f" UNION ALL SELECT n + 1 FROM numbers LIMIT {count})"
            f" INSERT INTO jobboard_schedules SELECT {copied} FROM jobboard_schedules, numbers WHERE id = 'first'"
        )


def test_no_statement_takes_more_steps_beside_a_larger_backlog(backend: SqliteBackend, tmp_path: Path) -> None:
    board = JobBoard("board", backend_of(tmp_path / "jobs.db"))
    with board:
        # Not due within the hour that the statements look ahead, whatever the time of day.
        board.schedules.add(Schedule("first", Every(days=1, start=datetime.now(UTC) + timedelta(days=1)), "b"))
    # More than the largest page of any of them.
    stock(backend, 1100)
    job = post(backend, "b", key="k")
    assert backend.jobs.claim(job.uuid, ClaimRequest("alice", "c", 3600.0)) is not None
    stock(backend, 100)
    few = step_counts(backend, job)
    stock(backend, 5000)
    many = step_counts(backend, job)
    grown = {what: (few[what], many[what]) for what in many if many[what] > 1.2 * few[what] + 20}
    assert set(grown) == set(DEAR), grown


def test_what_waits_is_counted_from_an_index_alone(backend: SqliteBackend) -> None:
    """A look at each row in its table would take more steps for each, and most of the time."""
    few, many = 1000, 6000
    fill(backend, few)
    values = {"board": backend.database.board, "now": time.time()}
    before = step_count(backend, job_statements.NUMBERS, values)
    fill(backend, many - few)
    assert step_count(backend, job_statements.NUMBERS, values) - before <= 10 * (many - few)


def steps_of(connection: sqlite3.Connection, work: Callable[[], object]) -> int:
    """Count the steps of SQLite's machine that some work takes."""
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    connection.set_progress_handler(count, 1)
    work()
    connection.set_progress_handler(None, 1)
    return steps


CLAIMS: dict[str, set[str] | None] = {"any name": None, "one name": {"n3"}, "several names": {"n1", "n7", "none"}}


@pytest.mark.parametrize("is_paused", [False, True])
@pytest.mark.parametrize("names", CLAIMS.values(), ids=CLAIMS)
def test_a_claim_takes_as_many_steps_from_ten_thousand_as_from_a_thousand(
    backend: SqliteBackend, names: set[str] | None, is_paused: bool
) -> None:
    ten = [f"n{number}" for number in range(10)]
    if is_paused:
        # What is paused stands in front of everything else, and is more than a claim looks at one by one.
        fill(backend, 500, "paused")
        backend.maintenance.pause("paused")
    fill(backend, 1000, *ten)

    def cost() -> int:
        return steps_of(
            backend.database._writer.get(), lambda: backend.jobs.consume([consumption(claimed(backend, names=names))])
        )

    few = max(cost() for _ in range(3))
    if is_paused:
        fill(backend, 3000, "paused")
    fill(backend, 10_000, *ten)
    assert max(cost() for _ in range(3)) <= few * 1.2


def test_the_heads_of_fifty_names_are_found_without_a_look_at_their_rows(backend: SqliteBackend) -> None:
    names = [f"n{number}" for number in range(50)]
    for name in names:
        backend.jobs.post([posting(name, body=b"." * 2000) for _ in range(20)])
    sql, constants = job_statements.HEADS_OF_NAME.on(DIALECT)
    values = {"board": backend.database.board, "limit": 1, **constants}
    # With a cache that holds no page yet.
    with closing(sqlite3.connect(backend.database.path)) as connection:
        before = _reads()
        found = [connection.execute(sql, {**values, "name": name}).fetchall() for name in names]
        reads = _reads() - before
    assert all(len(rows) == 1 for rows in found)
    # Each row is on a page of its own.
    assert reads < len(names)


def _reads() -> int:
    """Return how often this thread has read from files."""
    path = Path("/proc/thread-self/io")
    if not path.exists():
        pytest.skip("only Linux counts them")
    return int(dict(line.split(": ") for line in path.read_text().splitlines())["syscr"])


def test_looking_whether_to_wait_takes_as_many_steps_with_ten_thousand_paused_and_delayed(
    backend: SqliteBackend,
) -> None:
    def fill_both(count: int) -> None:
        backend.jobs.post([posting("paused") for _ in range(count)])
        backend.jobs.post([posting("later", delay=60.0 + number) for number in range(count)])

    backend.maintenance.pause("paused")
    with backend.waiter(frozenset({"paused", "later"})) as some, backend.waiter(None) as any_name:
        fill_both(100)
        few = [steps_of(backend.database._reader.get(), waiter.ready_in) for waiter in (some, any_name)]
        fill_both(5000)
        many = [steps_of(backend.database._reader.get(), waiter.ready_in) for waiter in (some, any_name)]
        # Newer ones of SQLite need even fewer.
        assert all(later <= first for first, later in zip(few, many, strict=True)), (few, many)
        assert 50.0 < (any_name.ready_in() or 0.0) <= 60.0


def test_a_later_page_takes_no_more_steps_than_the_first(backend: SqliteBackend) -> None:
    fill(backend, 5000)
    cursors: list[object | None] = [None]

    def turn() -> None:
        cursors.append(backend.jobs.page([JobState.UNCLAIMED], None, cursors[-1], 100).cursor)

    costs = [steps_of(backend.database._reader.get(), turn) for _ in range(40)]
    assert max(costs) <= min(costs) * 1.2


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ways in which statements were sent, one for each; an executemany and an insert of many are one."""
    sent: list[str] = []

    def count(kind: type[Transaction], way: str) -> None:
        real = getattr(kind, way)

        def counted(self: Transaction, *args: Any, **kwargs: Any) -> Any:
            # Run for none, a statement is not sent.
            if way != "run_many" or args[-1]:
                sent.append(way)
            return real(self, *args, **kwargs)

        monkeypatch.setattr(kind, way, counted)

    for way in ("rows", "run", "run_many"):
        count(Transaction, way)
    for way in ("insert_many", "run_each"):
        count(SqliteTransaction, way)
    return sent


def test_batches_take_as_many_statements_as_two_jobs(backend: SqliteBackend, sent: list[str]) -> None:
    def numbers(size: int) -> dict[str, int]:
        rows: list[JobRow] = []

        def claim() -> None:
            rows[:] = claim_next(backend, limit=size)

        work: dict[str, Callable[[], object]] = {
            "post": lambda: backend.jobs.post([posting() for _ in range(size)]),
            "claim_next": claim,
            "extend": lambda: backend.jobs.extend([renewal(row) for row in rows]),
            "abandon": lambda: backend.jobs.abandon([back(row) for row in rows]),
            "a page": lambda: backend.jobs.page([JobState.UNCLAIMED], None, None, size + 1),
            "stats": backend.jobs.stats,
            "claim_next again": claim,
            "read": lambda: backend.jobs.read([row.uuid for row in rows]),
            "consume": lambda: backend.jobs.consume([consumption(row) for row in rows]),
        }
        numbers = {}
        for what, call in work.items():
            sent.clear()
            call()
            numbers[what] = len(sent)
        assert len(rows) == size
        return numbers

    few = numbers(2)
    # Those that ``doc/backends/sqlite.rst`` names.
    assert few == {
        "post": 3, "claim_next": 3, "extend": 5, "abandon": 4, "a page": 3, "stats": 3, "claim_next again": 3,
        "read": 2, "consume": 3,
    }  # fmt: skip
    assert numbers(100) == few


def test_ends_that_are_alike_share_a_statement_and_few_of_a_kind_do_not(
    backend: SqliteBackend, sent: list[str]
) -> None:
    def end(size: int, results: int) -> list[str]:
        backend.jobs.post([posting() for _ in range(size)])
        ends = [
            replace(consumption(row), result=b"%d" % (at % results))
            for at, row in enumerate(claim_next(backend, limit=size))
        ]
        sent.clear()
        assert [verdict.name for verdict in backend.jobs.consume(ends)] == ["DONE"] * size
        ways = sent.copy()
        found = backend.jobs.read([each.fence.uuid for each in ends])
        assert [row and row.result for row in found] == [each.result for each in ends]
        return ways

    assert end(30, 1) == ["rows", "run", "run"]
    assert end(30, 3) == ["rows", "run", "run", "run", "run"]
    assert end(30, 10) == ["rows", "run_each", "run"]


def test_a_graph_takes_as_many_statements_with_thousands_of_parents(tmp_path: Path, sent: list[str]) -> None:
    with JobBoard("board", backend_of(tmp_path / "jobs.db")) as board:

        def ways(parents: int) -> list[str]:
            sent.clear()
            fan_in(board, parents, "part")
            return sent.copy()

        few = ways(3)
        # The jobs, their lines of history and the edges.
        assert few.count("run_many") == 3
        assert ways(400) == ways(4900) == few


def test_batches_beyond_the_number_of_parameters_go_through(backend: SqliteBackend) -> None:
    backend.jobs.post([posting() for _ in range(5000)])
    rows = claim_next(backend, limit=5000)
    assert len({row.uuid for row in rows}) == 5000
    assert {verdict.name for verdict in backend.jobs.consume([consumption(row) for row in rows])} == {"DONE"}
    assert None not in backend.jobs.read([row.uuid for row in rows])


def test_nothing_large_is_read_to_settle_or_end(backend: SqliteBackend) -> None:
    assert "body" not in job_statements.OVERDUE.on(DIALECT)[0].split("WHERE")[0].replace("NULL AS body", "")
    for end in (
        lambda row: backend.jobs.abandon([back(row)]),
        lambda row: backend.jobs.trash([Trashing(row.uuid, fence_of(row))]),
    ):
        row = post(backend, body=b"large")
        end(claimed(backend))
        (found,) = backend.jobs.read([row.uuid])
        assert found is not None
        assert found.body == b"large"
        backend.jobs.cancel([row.uuid])
