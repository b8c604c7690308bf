"""Posts into a lane in a user's transaction that stays open: nobody waits for it, and a rollback leaves no trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from harnesses.sql_site import Site

from jobboard import JobBoard, Posting
from jobboard.testing import eventually
from jobboard.testing.contract.case import LONG, claim_one, drain, uuids_of
from jobboard.testing.contract.lane_case import LANE, limit, post_in, slots_of

pytest_plugins = ("harnesses.sql_fixtures",)


@pytest.fixture
def board(site: Site) -> Iterator[JobBoard]:
    board = site.harness.board()
    limit(board, 2)
    yield board
    assert board.audit() == []


@contextmanager
def transaction(site: Site, end: str) -> Iterator[Any]:
    """Have a transaction of the user's that is open until the block ends, by COMMIT or ROLLBACK."""
    with site.server.client() as client, client.cursor() as cursor:
        cursor.execute("BEGIN")
        yield client
        cursor.execute(end)


@pytest.mark.parametrize("before", [0, 2, 4], ids=["free", "full", "over"])
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_nobody_waits_for_a_post_into_a_lane_that_is_not_committed(
    site: Site, board: JobBoard, end: str, before: int
) -> None:
    other = site.harness.board(board.name)
    for _ in range(before):
        post_in(board)
    with transaction(site, end) as client:
        mine = board.post_many([Posting("resize", lane=LANE) for _ in range(2)], connection=client)
        # Each of these would stand still for as long as the transaction is open.
        theirs = [post_in(other, priority="high") for _ in range(2)]
        first = claim_one(other)
        other.consume(first, "alice")
        second = claim_one(other)
        other.abandon(second, "alice", delay=LONG)
        limit(other, 1)
        limit(other, 2)
        assert other.cancel(post_in(other))
        assert [first, second] == theirs
    there = {job.uuid for job in other.iterjobs()}
    assert (set(uuids_of(mine)) <= there) == (end == "COMMIT")
    assert set(uuids_of(mine)).isdisjoint(there) == (end == "ROLLBACK")
    left = other.job_count - 1
    eventually(lambda: slots_of(other) == (0, min(2, left), max(0, left - 2)))
    assert len(list(drain(other))) == left


def test_a_post_that_is_committed_is_admitted_and_wakes_who_waits(site: Site, board: JobBoard) -> None:
    with transaction(site, "COMMIT") as client:
        job = board.post("resize", lane=LANE, connection=client)
    assert next(iter(board.wait(30))) == job
    assert claim_one(board) == job
