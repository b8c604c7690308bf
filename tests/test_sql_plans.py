"""What the backend's statements cost: by SQLite's own plans, steps and numbers of statements, not by the clock."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.sql_seam import back, claim_next, claimed, consumption, fence_of, fill, opened, post, posting, renewal

from jobboard.backends.rows import JobRow, Trashing
from jobboard.backends.sql import (
    SqliteBackend,
    event_statements,
    job_statements,
    journal_statements,
    schedule_statements,
)
from jobboard.backends.sql.schema import STATES
from jobboard.backends.sql.sqlite.database import DIALECT
from jobboard.backends.sql.sqlite.fast_path import BEFORE_POST, CLAIM_LINES, CONSUME, CONSUME_LINES, POST_LINES
from jobboard.backends.sql.sqlite.transaction import SqliteTransaction
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import Transaction
from jobboard.states import JobState


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteBackend]:
    with opened(tmp_path / "jobs.db") as backend:
        yield backend


def plan_of(backend: SqliteBackend, statement: Statement) -> str:
    sql, constants = statement.on(DIALECT)
    compiled = statement.clause.compile(dialect=DIALECT.compiler)  # type: ignore[attr-defined]
    parameters = {**dict.fromkeys(compiled.bind_names.values()), **constants}
    rows = backend.database._reader.get().execute(f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall()
    return "\n".join(row[3] for row in rows)


BY_INDEX = {
    "claim_next": (job_statements.CLAIM_NEXT.at_once, "jobboard_ready (board=? AND state=?)"),
    "the heads of a name": (job_statements.HEADS_OF_NAME, "jobboard_ready_by_name (board=? AND state=? AND name=?)"),
    "the next ready names": (
        job_statements.FIRST_OF_NEXT_NAMES,
        "jobboard_ready_by_name (board=? AND state=? AND name>?)",
    ),
    "the first that are ready": (job_statements.FIRST_READY, "jobboard_ready (board=? AND state=?)"),
    "is anything ready": (job_statements.IS_READY, "jobboard_ready"),
    "is a name ready": (job_statements.IS_NAME_READY, "jobboard_ready_by_name (board=? AND state=? AND name=?)"),
    "is anything due": (job_statements.IS_ANY_DUE, "jobboard_due (board=? AND due_at<?)"),
    "due or paused": (job_statements.DUE_OR_PAUSED, "jobboard_due (board=? AND due_at<?)"),
    "before a post": (BEFORE_POST, "jobboard_ready (board=? AND state=?)"),
    "what is due": (job_statements.OVERDUE, "jobboard_due (board=? AND due_at<?)"),
    "let go": (job_statements.PROMOTE.at_once, "jobboard_due (board=? AND due_at<?)"),
    "the next due": (job_statements.NEXT_DUE, "jobboard_due (board=?"),
    "posted": (POST_LINES, "INTEGER PRIMARY KEY (rowid>? AND rowid<?)"),
    "claimed": (CLAIM_LINES, "INTEGER PRIMARY KEY (rowid=?)"),
    "consumed": (CONSUME_LINES, "jobboard_uuid (board=? AND uuid=?)"),
    "a fence": (job_statements.LOCK, "jobboard_uuid (board=? AND uuid=?)"),
    "fences": (job_statements.LOCK_MANY, "jobboard_uuid (board=? AND uuid=?)"),
    "a key": (job_statements.FIND_KEY, "jobboard_key (board=? AND name=? AND key=?)"),
    "keys": (job_statements.FIND_KEYS, "jobboard_key (board=? AND name=? AND key=?)"),
    "a replacement": (job_statements.REPLACED_BY, "jobboard_replaced (board=? AND reason=?)"),
    "a page of a name": (
        job_statements.PAGES_OF_NAME[1].rest_of_rank,
        "jobboard_ready_by_name (board=? AND state=? AND name=? AND rank=? AND id>?)",
    ),
    "a page of a name's later ranks": (
        job_statements.PAGES_OF_NAME[1].later_ranks,
        "jobboard_ready_by_name (board=? AND state=? AND name=? AND rank>?)",
    ),
    "history": (job_statements.HISTORY, "jobboard_history (job=?)"),
    "the oldest": (job_statements.OLDEST_UNCLAIMED, "jobboard_ready (board=? AND state=? AND rank=?)"),
    "trimming": (journal_statements.TRIM_HISTORY, "jobboard_history (job=?)"),
    "events": (event_statements.EVENTS, "INTEGER PRIMARY KEY (rowid>?)"),
    "what is over": (job_statements.OVER, "jobboard_over (board=? AND retain_until<?)"),
    "schedules that are due": (schedule_statements.DUE, "jobboard_next_at (board=? AND next_at<?)"),
    "the next schedule": (schedule_statements.NEXT_AFTER_NOW, "jobboard_next_at (board=? AND next_at>?)"),
    "the first page of schedules": (schedule_statements.HEAD, "jobboard_next_at (board=? AND next_at>?)"),
    "schedules of one moment": (schedule_statements.AT, "jobboard_next_at (board=? AND next_at=? AND id>?)"),
    "later schedules": (schedule_statements.LATER, "jobboard_next_at (board=? AND next_at>?)"),
    "schedules that are not due": (schedule_statements.NOT_DUE, "jobboard_next_at (board=? AND next_at=? AND id>?)"),
    **{
        f"a page of {state}": (
            job_statements.PAGES[code].rest_of_rank,
            "jobboard_ready (board=? AND state=? AND rank=? AND id>?)",
        )
        for code, state in STATES.items()
    },
    **{
        f"a page of {state}'s later ranks": (
            job_statements.PAGES[code].later_ranks,
            "jobboard_ready (board=? AND state=? AND rank>?)",
        )
        for code, state in STATES.items()
    },
}


@pytest.mark.parametrize("what", BY_INDEX)
def test_it_is_found_by_an_index_and_nothing_is_scanned_or_sorted(backend: SqliteBackend, what: str) -> None:
    statement, index = BY_INDEX[what]
    plan = plan_of(backend, statement)
    assert index in plan
    assert "TEMP B-TREE" not in plan
    assert "SCAN jobboard" not in plan


def test_an_end_finds_its_job_by_the_uuid(backend: SqliteBackend) -> None:
    rows = backend.database._reader.get().execute(f"EXPLAIN QUERY PLAN {CONSUME}", [None] * CONSUME.count("?"))
    assert [row[3] for row in rows] == ["SEARCH jobboard_jobs USING INDEX jobboard_uuid (board=? AND uuid=?)"]


def test_what_waits_is_counted_from_an_index_alone(backend: SqliteBackend) -> None:
    waiting, *_others = plan_of(backend, job_statements.NUMBERS).split("UNION ALL")
    assert "COVERING INDEX jobboard_ready_by_name (board=? AND state=?)" in waiting
    assert "TEMP B-TREE" not in waiting


def test_a_plan_that_scans_or_sorts_would_be_seen(backend: SqliteBackend) -> None:
    assert "SCAN jobboard" in plan_of(backend, Statement(job_statements.select(job_statements.jobs.c.reason)))
    by_time = job_statements.select(job_statements.jobs.c.uuid).order_by(job_statements.jobs.c.last_modified)
    assert "TEMP B-TREE" in plan_of(backend, Statement(by_time))


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
            backend.database._writer.get(), lambda: backend.consume([consumption(claimed(backend, names=names))])
        )

    few = max(cost() for _ in range(3))
    if is_paused:
        fill(backend, 3000, "paused")
    fill(backend, 10_000, *ten)
    assert max(cost() for _ in range(3)) <= few * 1.2


def test_looking_whether_to_wait_takes_as_many_steps_with_ten_thousand_paused_and_delayed(
    backend: SqliteBackend,
) -> None:
    def fill_both(count: int) -> None:
        backend.post([posting("paused") for _ in range(count)])
        backend.post([posting("later", delay=60.0 + number) for number in range(count)])

    backend.maintenance.pause("paused")
    with backend.waiter(frozenset({"paused", "later"})) as some, backend.waiter(None) as any_name:
        fill_both(100)
        few = [steps_of(backend.database._reader.get(), waiter.ready_in) for waiter in (some, any_name)]
        fill_both(5000)
        assert [steps_of(backend.database._reader.get(), waiter.ready_in) for waiter in (some, any_name)] == few
        assert 50.0 < (any_name.ready_in() or 0.0) <= 60.0


def test_a_later_page_takes_no_more_steps_than_the_first(backend: SqliteBackend) -> None:
    fill(backend, 5000)
    cursors: list[object | None] = [None]

    def turn() -> None:
        cursors.append(backend.page([JobState.UNCLAIMED], None, cursors[-1], 100).cursor)

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
            "post": lambda: backend.post([posting() for _ in range(size)]),
            "claim_next": claim,
            "extend": lambda: backend.extend([renewal(row) for row in rows]),
            "abandon": lambda: backend.abandon([back(row) for row in rows]),
            "a page": lambda: backend.page([JobState.UNCLAIMED], None, None, size + 1),
            "stats": backend.stats,
            "claim_next again": claim,
            "read": lambda: backend.read([row.uuid for row in rows]),
            "consume": lambda: backend.consume([consumption(row) for row in rows]),
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


def test_batches_beyond_the_number_of_parameters_go_through(backend: SqliteBackend) -> None:
    backend.post([posting() for _ in range(5000)])
    rows = claim_next(backend, limit=5000)
    assert len({row.uuid for row in rows}) == 5000
    assert {verdict.name for verdict in backend.consume([consumption(row) for row in rows])} == {"DONE"}
    assert None not in backend.read([row.uuid for row in rows])


def test_nothing_large_is_read_to_settle_or_end(backend: SqliteBackend) -> None:
    assert "body" not in job_statements.OVERDUE.on(DIALECT)[0].split("WHERE")[0].replace("NULL AS body", "")
    for end in (
        lambda row: backend.abandon([back(row)]),
        lambda row: backend.trash([Trashing(row.uuid, fence_of(row))]),
    ):
        row = post(backend, body=b"large")
        end(claimed(backend))
        (found,) = backend.read([row.uuid])
        assert found is not None
        assert found.body == b"large"
        backend.cancel([row.uuid])
