"""Lanes in an SQLite file: what an end costs beside thousands of BLOCKED jobs, and what an audit finds and mends."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from helpers.sql_seam import claim_next, claimed, consumption, opened, posting

from jobboard.backends.lane_rows import LimitRow
from jobboard.backends.rows import JobRow, Ties, Verdict
from jobboard.backends.sql import SqliteBackend
from jobboard.backends.sql.rows import place_of
from jobboard.backends.sweep import sweep
from jobboard.limit import Limit, Rate
from jobboard.states import JobState
from jobboard.testing import eventually

_BLOCKED, _CLAIMED, _COMPLETE, _UNCLAIMED = JobState.BLOCKED, JobState.CLAIMED, JobState.COMPLETE, JobState.UNCLAIMED


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteBackend]:
    with opened(tmp_path / "jobs.db") as backend:
        yield backend


def set_limit(backend: SqliteBackend, limit: Limit, after: str | None = None) -> str:
    """Set a limit, and return its version."""
    row = LimitRow(limit, str(uuid.uuid4()), is_pending=limit.lane is not None)
    assert backend.limits.put(row, after) is Verdict.DONE
    sweep(backend.limits, [row])
    return row.version


def post_tied(backend: SqliteBackend, count: int, lane: str = "a") -> list[JobRow]:
    """Post jobs that are tied to a lane, a thousand at a time."""
    posted = []
    for first in range(0, count, 1000):
        some = [posting(ties=Ties(lane)) for _ in range(first, min(count, first + 1000))]
        posted += backend.jobs.post(some)
    return [answer.row for answer in posted]


def states_of(backend: SqliteBackend, jobs: list[JobRow]) -> list[JobState]:
    return [job.state for job in backend.jobs.read([job.uuid for job in jobs]) if job is not None]


def steps_of(backend: SqliteBackend, work: Callable[[], object]) -> int:
    """Count the steps that SQLite's machine takes for what a request writes."""
    connection, steps = backend.database._writer.get(), 0

    def count() -> None:
        nonlocal steps
        steps += 1

    connection.set_progress_handler(count, 1)
    work()
    connection.set_progress_handler(None, 1)
    return steps


def test_a_post_and_an_end_take_as_many_steps_beside_ten_thousand_blocked_jobs_as_beside_a_hundred(
    backend: SqliteBackend,
) -> None:
    def cost() -> int:
        row = claimed(backend)
        return steps_of(backend, lambda: backend.jobs.consume([consumption(row)])) + steps_of(
            backend, lambda: post_tied(backend, 1)
        )

    set_limit(backend, Limit(lane="a", running=1))
    post_tied(backend, 100)
    few = max(cost() for _ in range(3))
    post_tied(backend, 10_000)
    assert max(cost() for _ in range(3)) <= few * 1.2


def test_jobs_of_one_moment_are_admitted_in_the_order_of_their_batch(backend: SqliteBackend) -> None:
    set_limit(backend, Limit(lane="a", running=1))
    jobs = post_tied(backend, 20)
    for job in jobs:
        row = claimed(backend)
        assert row.uuid == job.uuid
        backend.jobs.consume([consumption(row)])


#: What somebody does to the rows of a lane of 1, of which the first job is CLAIMED, and the two others are BLOCKED.
DAMAGES = {
    "the claimed job has no turn": "UPDATE jobboard_lanes SET turn = NULL WHERE job = 1",
    "a job has the claimed job's turn": "UPDATE jobboard_lanes SET turn = -4611686018427387904 WHERE job = 3",
    "a job has no turn": "UPDATE jobboard_lanes SET turn = NULL WHERE job = 2",
    "a job has a later turn": "UPDATE jobboard_lanes SET turn = turn + 4194304 WHERE job = 2",
    "a job is not found by its name": "UPDATE jobboard_lanes SET blocked_name = 'b' WHERE job = 2",
    "a job is in another lane": "UPDATE jobboard_lanes SET lane = 'b' WHERE job = 2",
    "the lane does not know of a job": "DELETE FROM jobboard_lanes WHERE job = 2",
    "only the lane knows of a job": "UPDATE jobboard_jobs SET ties = NULL, state = 3, retain_until = 0 WHERE id = 2",
    "a second job can be claimed": "UPDATE jobboard_jobs SET state = 1 WHERE id = 3",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_lane_is_found_and_mended(backend: SqliteBackend, damage: str) -> None:
    set_limit(backend, Limit(lane="a", running=1))
    jobs = post_tied(backend, 3)
    row = claimed(backend)
    with closing(sqlite3.connect(backend.database.path)) as connection, connection:
        assert connection.execute(damage).rowcount == 1
    assert backend.maintenance.audit(False)
    assert backend.maintenance.audit(True)
    assert backend.maintenance.audit(False) == []
    first, *_ = backend.jobs.page({_BLOCKED}, None, None, 10).rows
    assert states_of(backend, jobs[:1]) == [_CLAIMED]
    backend.jobs.consume([consumption(row)])
    assert states_of(backend, [jobs[0], first]) == [_COMPLETE, _UNCLAIMED]


def test_a_change_of_a_limit_that_was_killed_is_carried_out_when_the_board_is_tidied(backend: SqliteBackend) -> None:
    jobs = post_tied(backend, 120)
    backend.limits.put(LimitRow(Limit(lane="a", running=7), "v", is_pending=True), None)
    backend.maintenance.tidy(10)
    assert states_of(backend, jobs) == [_UNCLAIMED] * 7 + [_BLOCKED] * 113
    assert [row.is_pending for row in backend.limits.all()] == [False]


def test_a_moment_of_a_rate_that_is_over_is_forgotten(backend: SqliteBackend) -> None:
    set_limit(backend, Limit(lane="a", rate=Rate(1000, per=1.0)))
    set_limit(backend, Limit(lane="b", rate=Rate(1, per=3600.0)))
    for lane in ("a", "b"):
        post_tied(backend, 1, lane)

    def lanes_with_a_moment() -> list[str]:
        backend.maintenance.tidy(10)
        with closing(sqlite3.connect(backend.database.path)) as connection:
            return [lane for (lane,) in connection.execute("SELECT lane FROM jobboard_rates")]

    eventually(lambda: lanes_with_a_moment() == ["b"])


#: Fills the board with BLOCKED jobs, as posts do.
FILL = """
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)
INSERT INTO jobboard_jobs (board, uuid, name, rank, place, created_on, state, attempts, token, last_modified,
    cancel_asked, ties, body)
SELECT :board, 'blocked-' || n, 'tied', -3, :place + n, 1e9, -1, 0, 0, 1e9, 0, CAST('t:' || n % :lanes AS BLOB), x'c0'
FROM numbers
"""
FILL_LANES = """
INSERT INTO jobboard_lanes (board, uuid, job, lane, turn, blocked_name)
SELECT board, uuid, id, CAST(ties AS TEXT), place, name FROM jobboard_jobs WHERE state = -1
"""


@pytest.mark.parametrize(("count", "lanes"), [(100_000, 1), (10_000, 10_000)], ids=["one lane", "many lanes"])
def test_a_claim_of_others_takes_as_many_steps_beside_many_blocked_jobs(
    backend: SqliteBackend, count: int, lanes: int
) -> None:
    def cost() -> int:
        backend.jobs.post([posting() for _ in range(5)])
        return steps_of(backend, lambda: claim_next(backend, limit=5))

    set_limit(backend, Limit(lane="t:*", running=1))
    cost()
    before = min(cost() for _ in range(3))
    values = {"count": count, "lanes": lanes, "board": backend.database.board, "place": place_of(3, 1e9)}
    with closing(sqlite3.connect(backend.database.path)) as connection, connection:
        connection.execute(FILL, values)
        connection.execute(FILL_LANES)
    assert min(cost() for _ in range(3)) <= before * 1.2
    # A claim that finds too few looks for exchanges, in a bounded number of lanes.
    assert steps_of(backend, lambda: claim_next(backend, names=frozenset({"tied", "b"}))) < 20_000
    assert steps_of(backend, lambda: post_tied(backend, 1, "t:0")) < 3_000


def statements_of(backend: SqliteBackend, work: Callable[[], object]) -> int:
    """Count the statements by which a request writes, with its BEGIN and COMMIT."""
    connection, statements = backend.database._writer.get(), list[str]()
    connection.set_trace_callback(statements.append)
    work()
    connection.set_trace_callback(None)
    return len(statements)


def test_a_claim_that_meets_full_names_takes_few_statements_more(backend: SqliteBackend) -> None:
    def cost(names: frozenset[str] | None, most: int, *expected: str) -> int:
        claimed: list[JobRow] = []
        statements = statements_of(backend, lambda: claimed.extend(claim_next(backend, names=names, limit=most)))
        assert [job.name for job in claimed] == list(expected)
        return statements

    names = ("resize", "rotate", "crop")
    for name in names:
        set_limit(backend, Limit(name=name, running=2))
        backend.jobs.post([posting(name=name) for _ in range(9)])
    for some in (None, frozenset(names)):
        usual = cost(some, 1, "resize")
        # What has no room, further ones by their first jobs, the limits of those, and what they have room for.
        assert cost(some, 3, "resize", "rotate", "rotate") <= usual + 9
        assert cost(some, 3, "crop", "crop") <= usual + 9
        assert cost(some, 3) <= usual + 9
        held = backend.jobs.page({_CLAIMED}, None, None, 9).rows
        backend.jobs.consume([consumption(job) for job in held])
