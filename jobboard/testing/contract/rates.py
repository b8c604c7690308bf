"""Rates of lanes: never more than ``burst + 1 + count / per * t`` starts in any ``t`` seconds, by the store's clock."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest

from jobboard.board import JobBoard, handles_of
from jobboard.events import EventKind
from jobboard.job import Job, Posting
from jobboard.limit import Rate
from jobboard.testing.contract.case import LONG, SHORT, claim_one, let_a_claim_expire, uuids_of
from jobboard.testing.contract.lane_case import (
    BLOCKED,
    LANE,
    UNCLAIMED,
    LaneCase,
    limit,
    of_lanes,
    post_in,
    run_to_the_end,
    slots_of,
    states_of,
)
from jobboard.testing.contract.races import at_once
from jobboard.testing.contract.waiting import Waiting
from jobboard.testing.deadline import DEADLINE, eventually
from jobboard.testing.harness import Harness

#: One start in each tenth of a second.
QUICK = Rate(30, per=3.0)
#: Seconds by which the moments of a history may be off: they may be rounded, and a claim that waits for its lane may
#: have read the clock before. It is less than the room that one start takes.
NEAR = 0.05


def starts_of(board: JobBoard, jobs: Sequence[Job]) -> list[float]:
    """Return the moments at which these jobs were claimed, in order, as their histories tell."""
    lines = [line for job in jobs for line in handles_of(board).reader.history(job.uuid)]
    return sorted(line.at.timestamp() for line in lines if line.kind is EventKind.CLAIMED)


def check_rate(starts: Sequence[float], rate: Rate) -> None:
    """Check each stretch between two starts."""
    for first, begin in enumerate(starts):
        for last, end in enumerate(starts[first:], first):
            most = rate.burst + 1 + rate.count / rate.per * (end - begin + NEAR)
            assert last - first + 1 <= most, f"{last - first + 1} starts in {end - begin:.3f} s"


class RateCases(LaneCase):
    @of_lanes
    @pytest.mark.parametrize("burst", [1, 3])
    def test_no_more_than_a_burst_starts_at_once(self, board: JobBoard, burst: int) -> None:
        limit(board, None, rate=Rate(1, per=LONG, burst=burst))
        jobs = [post_in(board) for _ in range(5)]
        assert states_of(board, *jobs) == [UNCLAIMED] * burst + [BLOCKED] * (5 - burst)
        assert run_to_the_end(board) == uuids_of(jobs[:burst])
        assert slots_of(board) == (0, 0, 5 - burst)

    @of_lanes
    def test_starts_keep_the_rate(self, board: JobBoard) -> None:
        limit(board, None, rate=QUICK)
        jobs = board.post_many([Posting("resize", lane=LANE) for _ in range(12)])
        eventually(lambda: run_to_the_end(board) is None or board.job_count == 0)
        starts = starts_of(board, jobs)
        assert len(starts) == 12
        check_rate(starts, QUICK)
        assert starts[-1] - starts[0] >= 9 / 10, "ten of the eleven after the first have waited for a tenth each"

    @of_lanes
    def test_several_clients_keep_one_rate(self, harness: Harness, board: JobBoard) -> None:
        rate = Rate(30, per=3.0, burst=3)
        limit(board, None, rate=rate)
        jobs = board.post_many([Posting("resize", lane=LANE) for _ in range(20)])

        def work(worker: JobBoard) -> None:
            eventually(lambda: run_to_the_end(worker) is None or board.job_count == 0)

        outcomes = at_once(*(partial(work, harness.board(board.name)) for _ in range(3)))
        assert outcomes == [None] * 3
        starts = starts_of(board, jobs)
        assert len(starts) == 20
        check_rate(starts, rate)

    @of_lanes
    def test_idle_time_saves_up_no_more_than_a_burst(self, board: JobBoard) -> None:
        """Neither while nothing waits, nor while a whole burst can be claimed."""
        rate = Rate(2, per=1.0, burst=2)
        limit(board, None, rate=rate)
        jobs = [post_in(board)]
        board.consume(claim_one(board), "alice")
        let_a_claim_expire(board, 2.0)
        jobs += board.post_many([Posting("resize", lane=LANE) for _ in range(8)])
        assert slots_of(board) == (0, 2, 6)
        let_a_claim_expire(board, 2.0)
        assert slots_of(board) == (0, 2, 6)
        eventually(lambda: run_to_the_end(board) is None or board.stats().blocked <= 2, every=0.05)
        check_rate(starts_of(board, jobs), rate)

    @of_lanes
    def test_a_burst_that_nobody_claimed_for_long_is_not_followed_by_another_one(self, board: JobBoard) -> None:
        """Nobody sees when it is claimed: whoever posts then can't know how long ago that was."""
        rate = Rate(2, per=1.0, burst=3)
        limit(board, None, rate=rate)
        jobs = [post_in(board) for _ in range(3)]
        assert slots_of(board) == (0, 3, 0)
        let_a_claim_expire(board, 2.0)
        claimed = board.claim_next("alice", limit=3, expiry=LONG)
        jobs += [post_in(board) for _ in range(6)]
        claimed += board.claim_next("alice", limit=6, expiry=LONG)
        assert len(claimed) >= 4
        board.consume_many(claimed, "alice")
        eventually(lambda: run_to_the_end(board) is None or board.job_count == 0, every=0.05)
        starts = starts_of(board, jobs)
        assert len(starts) == 9
        check_rate(starts, rate)

    @of_lanes
    def test_a_rate_wakes_who_waits_when_it_lets_the_next_one_start(self, harness: Harness, board: JobBoard) -> None:
        limit(board, None, rate=Rate(1, per=5 * SHORT))
        first, second = post_in(board), post_in(board)
        assert claim_one(board) == first
        waiting = Waiting(harness, board.name)
        try:
            assert waiting.begin().result(DEADLINE) == second
        finally:
            waiting.end()

    @of_lanes
    def test_a_rate_and_a_limit_hold_together(self, board: JobBoard) -> None:
        limit(board, 1, rate=Rate(1000, per=1.0, burst=100))
        jobs = [post_in(board) for _ in range(3)]
        assert states_of(board, *jobs) == [UNCLAIMED, BLOCKED, BLOCKED]
        board.consume(claim_one(board), "alice")
        eventually(lambda: states_of(board, *jobs[1:]) == [UNCLAIMED, BLOCKED])
        limit(board, 5, rate=Rate(1, per=LONG))
        claimed = claim_one(board)
        board.consume(claimed, "alice")
        assert slots_of(board)[0] == 0

    @of_lanes
    def test_a_start_counts_whatever_becomes_of_it(self, board: JobBoard) -> None:
        limit(board, None, rate=Rate(1, per=LONG))
        jobs = [post_in(board, max_attempts=1) for _ in range(3)]
        board.trash(claim_one(board), "alice")
        assert states_of(board, *jobs[1:]) == [BLOCKED, BLOCKED]
        board.cancel(jobs[1])
        assert states_of(board, jobs[2]) == [BLOCKED]

    @of_lanes
    @pytest.mark.parametrize("change", ["removed", "another", "a limit alone"])
    def test_another_rate_holds_at_once(self, board: JobBoard, change: str) -> None:
        limit(board, None, rate=Rate(1, per=LONG))
        jobs = [post_in(board) for _ in range(5)]
        board.consume(claim_one(board), "alice")
        if change == "removed":
            assert board.limits.remove(lane=LANE)
        elif change == "another":
            limit(board, None, rate=Rate(100, per=1.0))
        else:
            limit(board, 4)
        order: list[str] = []

        def are_all_run() -> bool:
            order.extend(run_to_the_end(board))
            return board.job_count == 0

        eventually(are_all_run)
        assert order == uuids_of(jobs[1:])

    @of_lanes
    def test_each_lane_of_a_prefix_has_a_rate_of_its_own(self, board: JobBoard) -> None:
        limit(board, None, "tenant:*", rate=Rate(1, per=LONG))
        jobs = [post_in(board, f"tenant:{number}") for number in (1, 2, 1, 2)]
        assert states_of(board, *jobs) == [UNCLAIMED, UNCLAIMED, BLOCKED, BLOCKED]
        assert set(run_to_the_end(board)) == set(uuids_of(jobs[:2]))

    @of_lanes
    def test_a_better_priority_takes_the_start_of_what_is_not_claimed(self, board: JobBoard) -> None:
        limit(board, None, rate=Rate(1, per=LONG))
        first = post_in(board)
        better = post_in(board, priority="high")
        assert states_of(board, first, better) == [BLOCKED, UNCLAIMED]
