"""Lanes in an SQLite file: what an end costs beside thousands of BLOCKED jobs, and what an audit finds and mends."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from helpers.sql_seam import claimed, consumption, opened, posting

from jobboard.backends.rows import JobRow, Ties
from jobboard.backends.sql import SqliteBackend
from jobboard.states import JobState

_BLOCKED, _CLAIMED, _COMPLETE, _UNCLAIMED = JobState.BLOCKED, JobState.CLAIMED, JobState.COMPLETE, JobState.UNCLAIMED


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteBackend]:
    with opened(tmp_path / "jobs.db") as backend:
        yield backend


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

    post_tied(backend, 100)
    few = max(cost() for _ in range(3))
    post_tied(backend, 10_000)
    assert max(cost() for _ in range(3)) <= few * 1.2


def test_jobs_of_one_moment_are_admitted_in_the_order_of_their_batch(backend: SqliteBackend) -> None:
    jobs = post_tied(backend, 20)
    for job in jobs:
        row = claimed(backend)
        assert row.uuid == job.uuid
        backend.jobs.consume([consumption(row)])


#: What somebody does to the rows of a lane, of which the first job is CLAIMED, and the two others are BLOCKED.
DAMAGES = {
    "the claimed job has no turn": "UPDATE jobboard_lanes SET turn = NULL WHERE job = 1",
    "a job has the claimed job's turn": "UPDATE jobboard_lanes SET turn = -4611686018427387904 WHERE job = 3",
    "a job has no turn": "UPDATE jobboard_lanes SET turn = NULL WHERE job = 2",
    "a job has a later turn": "UPDATE jobboard_lanes SET turn = turn + 4194304 WHERE job = 2",
    "a second job can be claimed": "UPDATE jobboard_jobs SET state = 1 WHERE id = 3",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_lane_is_found_and_mended(backend: SqliteBackend, damage: str) -> None:
    jobs = post_tied(backend, 3)
    row = claimed(backend)
    with closing(sqlite3.connect(backend.database.path)) as connection, connection:
        assert connection.execute(damage).rowcount == 1
    assert backend.maintenance.audit(False)
    assert backend.maintenance.audit(True)
    assert states_of(backend, jobs) == [_CLAIMED, _BLOCKED, _BLOCKED]
    assert backend.maintenance.audit(False) == []
    backend.jobs.consume([consumption(row)])
    assert states_of(backend, jobs) == [_COMPLETE, _UNCLAIMED, _BLOCKED]
