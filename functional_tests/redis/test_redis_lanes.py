"""Lanes on Redis whose keys somebody has changed: an audit finds what is wrong, and mends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harnesses.fixtures import a_board, a_harness, a_server
from harnesses.redis_hand import Hand, a_hand, member_of
from harnesses.redis_harness import RedisHarness
from servers.redis_servers import RedisServer

from jobboard import Job, JobBoard, JobState
from jobboard.testing.contract.lanes import post_tied, states_of

LONG = 600.0

server = a_server(RedisServer)
harness = a_harness(RedisHarness)
board = a_board()
hand = a_hand()

#: What somebody does to the keys of a lane, of which the first job is CLAIMED, and the two others are BLOCKED.
DAMAGES: dict[str, Callable[[Hand, list[Job]], object]] = {
    "its slot is lost": lambda hand, jobs: hand("DEL", "slots"),
    "its slot is that of a BLOCKED job": lambda hand, jobs: hand("HSET", "slots", "a", jobs[1].uuid),
    "its slot is that of no job": lambda hand, jobs: hand("HSET", "slots", "a", "nobody"),
    "a job does not wait": lambda hand, jobs: hand("ZREM", "lane:a", member_of(jobs[2])),
    "a job waits at another place": lambda hand, jobs: hand("ZADD", "lane:a", 1, member_of(jobs[2])),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_lane_is_found_and_mended(board: JobBoard, hand: Hand, damage: str) -> None:
    jobs = [post_tied(board, lane="a") for _ in range(3)]
    (claimed,) = board.claim_next("alice", limit=3, expiry=LONG)
    DAMAGES[damage](hand, jobs)
    assert board.audit()
    assert board.audit(repair=True)
    assert board.audit() == []
    assert states_of(board, *jobs) == [JobState.CLAIMED, JobState.BLOCKED, JobState.BLOCKED]
    board.consume(claimed, "alice")
    assert states_of(board, *jobs) == [JobState.COMPLETE, JobState.UNCLAIMED, JobState.BLOCKED]


def test_a_slot_that_is_held_twice_stays_with_the_claim(board: JobBoard, hand: Hand) -> None:
    jobs = [post_tied(board, lane="a") for _ in range(2)]
    hand("HDEL", "slots", "a")
    assert board.cancel(post_tied(board, lane="a"))
    assert states_of(board, *jobs) == [JobState.UNCLAIMED, JobState.UNCLAIMED]
    assert board.claim(jobs[0], "alice", LONG)
    assert board.audit(repair=True)
    assert board.audit() == []
    assert states_of(board, *jobs) == [JobState.CLAIMED, JobState.BLOCKED]


def test_a_free_slot_beside_a_blocked_job_is_given_to_it(board: JobBoard, hand: Hand) -> None:
    jobs = [post_tied(board, lane="a") for _ in range(2)]
    for kind in ("jobs", "listings"):
        hand("HDEL", kind, jobs[0].uuid)
    assert board.audit(repair=True)
    assert board.audit() == []
    assert states_of(board, jobs[1]) == [JobState.UNCLAIMED]
