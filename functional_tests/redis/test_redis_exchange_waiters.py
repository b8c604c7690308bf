"""Who waits on Redis behind a stuck name of a full lane wakes as soon as that gets a slot, and not by a poll."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from harnesses.fixtures import a_board, a_harness, a_server
from harnesses.redis_hand import Hand, a_hand
from harnesses.redis_harness import RedisHarness
from servers.redis_servers import RedisServer

from jobboard import Job, JobBoard, Posting
from jobboard.backends.base import Waiter
from jobboard.backends.lanes import EXCHANGE_POLL
from jobboard.board import client_of
from jobboard.limit import Rate
from jobboard.testing.contract.name_limits import names_beside_stuck, stuck

LONG = 600.0
ROTATE = ["rotate"]

server = a_server(RedisServer)
harness = a_harness(RedisHarness)
board = a_board()
hand = a_hand()


@pytest.fixture
def waiter(board: JobBoard) -> Iterator[Waiter]:
    with client_of(board).waiter(frozenset(ROTATE)) as waiter:
        yield waiter


def post_behind_stuck(board: JobBoard, lanes: int, others: int) -> None:
    """Post jobs that come first into each lane of one slot, and some of others."""
    board.limits.set(lane="a:*", running=1)
    for lane in range(lanes):
        board.post_many([Posting("resize", lane=f"a:{lane}", priority="high") for _ in range(40)])
        board.post_many([Posting("rotate", lane=f"a:{lane}") for _ in range(others)])


def claim_one(board: JobBoard) -> Job:
    (job,) = board.claim_next("bob", ROTATE, 1, LONG)
    return job


@stuck
def test_a_slot_that_a_stuck_name_gets_wakes_who_waits_for_another_one(board: JobBoard, hand: Hand, why: str) -> None:
    post_behind_stuck(board, lanes=1, others=4)
    names = names_beside_stuck(board, why)
    with client_of(board).waiter(frozenset(names)) as waiter:
        for _ in range(3):
            (job,) = board.claim_next("bob", names, 1, LONG)
            assert waiter.ready_in() == EXCHANGE_POLL
            assert hand("HLEN", "waiters") == 1
            board.consume(job, "bob")
            assert hand("HLEN", "waiters") == 0
            # It was told, too: otherwise this lasts until the limit of the test.
            waiter.wait(LONG)


@stuck
def test_a_slot_that_a_stuck_name_has_got_between_a_claim_and_the_look_is_seen(board: JobBoard, why: str) -> None:
    post_behind_stuck(board, lanes=1, others=2)
    names = names_beside_stuck(board, why)
    (job,) = board.claim_next("bob", names, 1, LONG)
    assert board.claim_next("bob", names, 1, LONG) == []
    board.consume(job, "bob")
    with client_of(board).waiter(frozenset(names)) as waiter:
        due = waiter.ready_in()
    assert due is not None
    assert due < EXCHANGE_POLL / 10


def test_a_name_that_somebody_runs_keeps_its_slot(board: JobBoard, waiter: Waiter, hand: Hand) -> None:
    """Who runs it claims the next one as soon as he can, and others would take its lane's slots out of turn."""
    board.post("resize")
    board.claim_next("alice", ["resize"], 1, LONG)
    post_behind_stuck(board, lanes=1, others=2)
    job = claim_one(board)
    assert waiter.ready_in() == EXCHANGE_POLL
    board.consume(job, "bob")
    assert hand("HLEN", "waiters") == 1
    assert waiter.ready_in() == EXCHANGE_POLL


def test_who_has_ended_a_claim_gets_the_next_one(board: JobBoard, waiter: Waiter, hand: Hand) -> None:
    board.limits.set(lane="a:*", running=1)
    board.post_many([Posting(name, lane="a:1") for name in ("resize", "resize", "rotate")])
    (job,) = board.claim_next("alice", ["resize"], 1, LONG)
    assert waiter.ready_in() == EXCHANGE_POLL
    board.consume(job, "alice")
    assert hand("HLEN", "waiters") == 1


def test_the_dead_are_passed_over(board: JobBoard, waiter: Waiter, hand: Hand) -> None:
    post_behind_stuck(board, lanes=1, others=2)
    job = claim_one(board)
    waiter.ready_in()
    [(id, request)] = hand("HGETALL", "waiters").items()
    hand("HSET", "waiters", "killed/1", request)
    hand("ZADD", "armed", hand("ZSCORE", "armed", id) - 1, "killed/1")
    board.consume(job, "bob")
    assert hand("HLEN", "waiters") == 0
    waiter.wait(LONG)


def test_more_lanes_than_a_claim_looks_at_need_no_poll(board: JobBoard, waiter: Waiter) -> None:
    post_behind_stuck(board, lanes=30, others=1)
    claimed = set[str]()
    for _ in range(100):
        claimed.update(str(job.lane) for job in board.claim_next("bob", ROTATE, 3, LONG))
        if len(claimed) == 30:
            break
        due = waiter.ready_in()
        assert due is not None
        assert due < EXCHANGE_POLL
        waiter.wait(due)
    assert len(claimed) == 30


@pytest.mark.parametrize("limit", [{"running": 1}, {"rate": Rate(1, per=LONG)}], ids=["limit", "rate"])
def test_who_does_not_claim_is_not_told_again_and_again_that_he_could(
    board: JobBoard, waiter: Waiter, limit: dict[str, Any]
) -> None:
    board.limits.set(lane="a:*", **limit)
    board.post_many([Posting(name, lane="a:1") for name in ("resize", "rotate")])
    assert waiter.ready_in() == EXCHANGE_POLL
    assert board.claim_next("bob", ["crop"]) == []
    assert waiter.ready_in() == EXCHANGE_POLL
