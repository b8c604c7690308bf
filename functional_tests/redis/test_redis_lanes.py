"""Lanes on Redis whose keys somebody has changed: an audit finds what is wrong, and mends it. And what lanes cost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harnesses.fixtures import a_board, a_harness, a_server
from harnesses.redis_hand import Hand, a_hand, member_of
from harnesses.redis_harness import RedisHarness
from servers.redis_servers import RedisServer

from jobboard import Job, JobBoard, JobState, Posting
from jobboard.backends.lane_rows import LimitRow
from jobboard.backends.rows import Verdict
from jobboard.limit import Limit, Rate
from jobboard.testing import eventually
from jobboard.testing.contract.lanes import states_of

LONG = 600.0
#: The score of a claimed job in its lane.
CLAIMED = -(2**53)

server = a_server(RedisServer)
harness = a_harness(RedisHarness)
board = a_board()
hand = a_hand()

#: What somebody does to the keys of a lane, of which the first job is CLAIMED, and the two others are BLOCKED.
DAMAGES: dict[str, Callable[[Hand, list[Job]], object]] = {
    "its slots are lost": lambda hand, jobs: hand("DEL", "held:a"),
    "no job waits": lambda hand, jobs: hand("DEL", "lane:a"),
    "a job does not wait": lambda hand, jobs: hand("ZREM", "lane:a", member_of(jobs[2])),
    "a job waits at another place": lambda hand, jobs: hand("ZADD", "lane:a", 1, member_of(jobs[2])),
    "a job is not known by its name": lambda hand, jobs: hand("ZREM", "lane:a\nresize", member_of(jobs[1])),
    "a BLOCKED job has a slot": lambda hand, jobs: hand("ZADD", "held:a", CLAIMED, member_of(jobs[1])),
    "nobody's job has a slot": lambda hand, jobs: hand("ZADD", "held:a", CLAIMED, "0" * 48),
    "nobody's job waits": lambda hand, jobs: hand("ZADD", "lane:a", 1, "0" * 48),
    "a claimed job is a retry": lambda hand, jobs: hand("ZADD", "retrying:a", 1, member_of(jobs[0])),
    "only records name it": lambda hand, jobs: hand("ZREM", "lanes", "a"),
    "nobody's lane has a job": lambda hand, jobs: (hand("ZADD", "lanes", 0, "b"), hand("ZADD", "held:b", 1, "0" * 48)),
    "it is not known as full": lambda hand, jobs: hand("DEL", "blocked_lanes"),
    "another number of its jobs wait": lambda hand, jobs: hand("ZADD", "blocked_lanes", 7, "a"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_lane_is_found_and_mended(board: JobBoard, hand: Hand, damage: str) -> None:
    board.limits.set(lane="a", running=1)
    jobs = [board.post("resize", lane="a") for _ in range(3)]
    (claimed,) = board.claim_next("alice", limit=3, expiry=LONG)
    DAMAGES[damage](hand, jobs)
    assert board.audit()
    assert board.audit(repair=True)
    assert board.audit() == []
    assert states_of(board, *jobs) == [JobState.CLAIMED, JobState.BLOCKED, JobState.BLOCKED]
    board.consume(claimed, "alice")
    assert states_of(board, *jobs) == [JobState.COMPLETE, JobState.UNCLAIMED, JobState.BLOCKED]


def test_a_slot_that_is_held_twice_stays_with_the_claim(board: JobBoard, hand: Hand) -> None:
    jobs = [board.post("resize", lane="a") for _ in range(2)]
    assert board.claim(jobs[0], "alice", LONG)
    # As if a look at the lane had been lost.
    limit = board._backend.limits
    board.limits.set(lane="b", running=1)
    hand("HSET", "limits", "lane\na", hand("HGET", "limits", "lane\nb"))
    assert limit.lane("a", 0).row.claimable == 1
    assert board.audit(repair=True)
    assert board.audit() == []
    assert states_of(board, *jobs) == [JobState.CLAIMED, JobState.BLOCKED]


def test_a_free_slot_beside_a_blocked_job_is_given_to_it(board: JobBoard, hand: Hand) -> None:
    board.limits.set(lane="a", running=1)
    jobs = [board.post("resize", lane="a") for _ in range(2)]
    for kind in ("jobs", "listings"):
        hand("HDEL", kind, jobs[0].uuid)
    assert board.audit(repair=True)
    assert board.audit() == []
    assert states_of(board, jobs[1]) == [JobState.UNCLAIMED]


def test_a_rate_whose_timer_is_lost_is_found_and_goes_on(board: JobBoard, hand: Hand) -> None:
    board.limits.set(lane="a", rate=Rate(10, per=1.0))
    jobs = [board.post("resize", lane="a") for _ in range(3)]
    hand("DEL", "delayed")
    assert board.audit(repair=True)
    for job in jobs:
        (claimed,) = eventually(lambda: board.claim_next("alice", expiry=LONG))
        assert claimed == job
    assert board.audit() == []


def test_a_limit_that_can_not_be_read_holds_nothing_up_and_is_set_aside(board: JobBoard, hand: Hand) -> None:
    hand("HSET", "limits", "lane\na", b"\xc1")
    job = board.post("resize", lane="a")
    assert (states_of(board, job), list(board.limits)) == ([JobState.UNCLAIMED], [])
    assert board.audit()
    assert board.audit(repair=True)
    assert board.audit() == []
    assert hand("HGET", "unreadable", "lane\na") == b"\xc1"


def test_a_limit_of_a_name_that_can_not_be_read_limits_nothing_once_it_is_set_aside(
    board: JobBoard, hand: Hand
) -> None:
    board.post_many([Posting("resize") for _ in range(6)])
    for most, mend in ((1, lambda: board.limits.set(name="resize", running=3)), (3, lambda: board.audit(repair=True))):
        board.limits.set(name="resize", running=most)
        hand("HSET", "limits", "name\nresize", b"\xc1")
        mend()
    assert (list(board.limits), len(board.claim_next("alice", limit=9, expiry=LONG))) == ([], 6)
    assert hand("EXISTS", "paused", "limited") == 0


def test_what_has_ended_leaves_nothing_of_its_lane_behind(board: JobBoard, hand: Hand) -> None:
    board.limits.set(lane="a:*", running=2, rate=Rate(1000, per=1.0, burst=50))
    board.post_many([Posting("resize", lane=f"a:{number % 5}") for number in range(40)])
    board.cancel(next(iter(board.iterjobs(states=[JobState.BLOCKED]))))

    def drain() -> bool:
        board.consume_many(board.claim_next("alice", limit=50, expiry=LONG), "alice")
        return board.job_count == 0

    eventually(drain, every=0.001)
    assert board.limits.remove(lane="a:*")
    kinds = ("lanes", "blocked_lanes", "rates", "offered", "limits", "delayed", *(f"held:a:{n}" for n in range(5)))

    def is_tidy() -> bool:
        board._backend.maintenance.tidy(1000)
        return not any(hand("EXISTS", kind) for kind in kinds)

    eventually(is_tidy)


def test_a_look_at_many_lanes_withdraws_no_more_than_is_over_their_limits(board: JobBoard, hand: Hand) -> None:
    limits, lanes = board._backend.limits, [f"a:{number}" for number in range(4)]
    strict = LimitRow(Limit(lane="a:*", running=50, order="strict"), "1")
    assert limits.put(strict, None) is Verdict.DONE
    for lane in lanes:
        board.post_many([Posting("resize", lane=lane, priority="low") for _ in range(50)])
    for job in board.claim_next("alice", limit=200, expiry=LONG):
        board.abandon(job, "alice")
    for lane in lanes:
        board.post_many([Posting("resize", lane=lane, priority="high") for _ in range(50)])
    # Retries keep the slots of a strict lane; in this one better jobs go before them.
    assert limits.put(LimitRow(Limit(lane="a:*", running=40), "2"), "1") is Verdict.DONE
    limits.look(lanes)
    assert [hand("ZCARD", f"held:{lane}") >= 40 for lane in lanes] == [True] * 4
    for _ in range(9):
        limits.look(lanes)
    assert [hand("ZCARD", f"held:{lane}") for lane in lanes] == [40] * 4
    assert board.audit() == []
