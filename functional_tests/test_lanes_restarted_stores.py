"""A store is killed and started again while lanes are full: their slots are those of their jobs, and work goes on."""

from __future__ import annotations

from collections import Counter

import pytest
from harnesses.fixtures import a_store
from servers.durable_stores import Store

from jobboard import BoardUnavailable, Job, JobBoard, JobState, Posting, fetch
from jobboard.testing import eventually

LANES = {"tenant:1": 2, "tenant:2": 2, "order:1": 1}
LONG = 600.0


store = a_store(["redis", "etcd", "postgresql", "mariadb", "zookeeper"])


def fill(board: JobBoard) -> list[Job]:
    """Set limits, post more than they allow, and have some of it claimed, ended, and waiting for a retry."""
    board.limits.set(lane="tenant:*", running=2)
    board.limits.set(lane="order:*", running=1, order="strict")
    board.limits.set(name="rotate", running=1)
    board.post_many([Posting(name, lane=lane) for _ in range(5) for name in ("resize", "rotate") for lane in LANES])
    claimed = board.claim_next("alice", limit=4, expiry=LONG)
    board.consume(claimed.pop(), "alice")
    board.abandon(claimed.pop(), "alice", delay=LONG)
    return claimed


def states_of(board: JobBoard) -> dict[str | None, Counter[JobState]]:
    states: dict[str | None, Counter[JobState]] = {lane: Counter() for lane in LANES}
    for job in board.iterjobs():
        states[job.lane][job.record.state] += 1
    return states


def until_answered(board: JobBoard) -> int:
    def count() -> int | None:
        try:
            return board.job_count
        except BoardUnavailable:
            return None

    return eventually(count, every=0.1)


def check_lanes(board: JobBoard) -> None:
    states = states_of(board)
    for lane, running_at_most in LANES.items():
        stats, counted = board.limits.lane(lane), states[lane]
        assert (stats.running, stats.claimable, stats.blocked) == (
            counted[JobState.CLAIMED], counted[JobState.UNCLAIMED], counted[JobState.BLOCKED],
        )  # fmt: skip
        held = stats.running + stats.claimable + (stats.retrying if lane.startswith("order") else 0)
        assert held == running_at_most
    assert board.audit() == []


@pytest.mark.timeout(300)
def test_full_lanes_survive_a_kill_of_the_store(store: Store) -> None:
    assert store.restart is not None
    with fetch("restarted", store.uri, patience=60.0) as board:
        claimed = fill(board)
        check_lanes(board)
        before = states_of(board)
        store.restart()
        assert until_answered(board) == sum(sum(counted.values()) for counted in before.values())
        assert states_of(board) == before
        check_lanes(board)
        assert {(limit.lane, limit.name, limit.running) for limit in board.limits} == {
            ("tenant:*", None, 2), ("order:*", None, 1), (None, "rotate", 1),
        }  # fmt: skip
        for job in claimed:
            board.consume(job, "alice")
        for job in board.iterjobs(states=[JobState.DELAYED]):
            board.run_now(job)

        def are_all_done() -> bool:
            check_lanes_are_kept(board)
            jobs = board.claim_next("bob", limit=10, expiry=LONG)
            assert sum(job.name == "rotate" for job in jobs) <= 1
            assert board.consume_many(jobs, "bob") == [None] * len(jobs)
            return board.job_count == 0

        eventually(are_all_done)


def check_lanes_are_kept(board: JobBoard) -> None:
    for lane, most in LANES.items():
        stats = board.limits.lane(lane)
        assert stats.running + stats.claimable <= most
