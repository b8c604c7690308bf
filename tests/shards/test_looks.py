"""How a conductor without credit finds jobs, on its homes and on other shards, and how often it looks for them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from helpers.sharded import COUNT, Counting, MemoryShardsHarness

from jobboard import Job, JobState
from jobboard.backends.memory import store
from jobboard.backends.shards import homes
from jobboard.testing import eventually

LONG = 600.0

#: Seconds; and between two claims behind a stuck name.
LOOK_INTERVAL, EXCHANGE_POLL = 0.05, 0.04

ROTATE = ["rotate"]


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counting]:
    """A board whose only owner has used up its credit."""
    monkeypatch.setattr(homes, "LOOK_INTERVAL", LOOK_INTERVAL)
    monkeypatch.setattr(store, "EXCHANGE_POLL", EXCHANGE_POLL)
    with MemoryShardsHarness() as harness:
        counting = Counting(harness)
        counting.backend._homes.learn("alice", ["alice"])
        for _ in range(2):
            assert counting.board.claim_next("alice", ROTATE) == []
        assert counting.claims == COUNT
        yield counting


def shard_of(counting: Counting, *, is_home: bool) -> int:
    return next(number for number in range(COUNT) if counting.backend._homes.has("alice", number) is is_home)


def claimed(counting: Counting) -> Job:
    """Claim and wait as a conductor does, until it gets a job."""
    with counting.backend.waiter(frozenset(ROTATE)) as waiter:

        def claim() -> list[Job]:
            jobs = counting.board.claim_next("alice", ROTATE, 1, LONG)
            due = 0.0 if jobs else waiter.ready_in()
            waiter.wait(1.0 if due is None else min(due, 1.0))
            return jobs

        return eventually(claim)[0]


@pytest.mark.parametrize("is_home", [True, False])
def test_it_claims_what_waits_behind_a_stuck_name(counting: Counting, is_home: bool) -> None:
    lane = counting.lane_on(shard_of(counting, is_home=is_home))
    counting.board.limits.set(lane=lane, running=1)
    for _ in range(3):
        counting.board.post("resize", lane=lane, priority="high")
    jobs = [counting.board.post("rotate", lane=lane) for _ in range(3)]
    for job in jobs:
        assert claimed(counting) == job
        counting.board.consume(job, "alice")


def test_jobs_that_wait_on_its_homes_keep_it_from_no_other_shard(counting: Counting) -> None:
    """It asks for them more often than it looks at others."""
    lane = counting.lane_on(shard_of(counting, is_home=True))
    counting.board.limits.set(lane=lane, running=1)
    counting.board.claim(counting.board.post("resize", lane=lane), "bob", LONG)
    blocked = counting.board.post("rotate", lane=lane)
    jobs = {counting.post_on(shard_of(counting, is_home=is_home), "rotate") for is_home in (True, False)}
    assert {claimed(counting) for _ in jobs} == jobs
    assert blocked.state is JobState.BLOCKED


def test_it_looks_once_in_each_interval(counting: Counting) -> None:
    with counting.backend.waiter(frozenset(ROTATE)) as waiter:
        assert waiter.ready_in() is None
        asked, began = counting.calls, time.monotonic()
        for _ in range(9):
            waiter.wait(LOOK_INTERVAL / 3)
        waiter.wait(LOOK_INTERVAL * 6)
        requests = counting.calls - asked
        assert set(requests) == {"outlook"}
        assert 1 <= requests["outlook"] <= (time.monotonic() - began) / LOOK_INTERVAL
