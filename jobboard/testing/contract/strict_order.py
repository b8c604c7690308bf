"""The order of a lane: a strict one keeps the slot of a job that failed until that ends; a free one goes on."""

from __future__ import annotations

import time

import pytest

from jobboard.board import JobBoard, client_of
from jobboard.job import Job
from jobboard.limit import Rate
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, SHORT, claim_one, let_a_claim_expire, uuids_of
from jobboard.testing.contract.lane_case import (
    BLOCKED,
    DELAYED,
    LANE,
    UNCLAIMED,
    LaneCase,
    claim_all,
    limit,
    of_lanes,
    post_in,
    run_to_the_end,
    slots_of,
    states_of,
)
from jobboard.testing.contract.limits import KEEPING, End
from jobboard.testing.deadline import eventually

both_orders = pytest.mark.parametrize("order", ["free", "strict"])


def _fail_for(board: JobBoard, seconds: float, *, counted: bool = True) -> Job:
    """Claim the next job and put it back for later."""
    job = claim_one(board)
    board.abandon(job, "alice", delay=seconds, counted=counted)
    return job


class StrictOrderCases(LaneCase):
    @of_lanes
    @pytest.mark.parametrize("counted", [True, False])
    def test_nothing_of_a_strict_lane_passes_a_job_that_failed(self, board: JobBoard, counted: bool) -> None:
        limit(board, 1, order="strict")
        first, second, third = (post_in(board) for _ in range(3))
        assert _fail_for(board, LONG, counted=counted) == first
        assert board.limits.lane(LANE).retrying == 1
        assert states_of(board, second, third) == [BLOCKED, BLOCKED]
        assert board.run_now(first)
        assert _fail_for(board, SHORT, counted=counted) == first
        (again,) = eventually(lambda: claim_all(board))
        assert again == first
        board.consume(again, "alice")
        assert run_to_the_end(board) == uuids_of([second, third])

    @of_lanes
    @pytest.mark.parametrize("count", [2, 50], ids=["that lets it start later", "that lets it start"])
    def test_nothing_of_a_strict_lane_with_a_rate_passes_a_job_that_failed(self, board: JobBoard, count: int) -> None:
        limit(board, 1, order="strict", rate=Rate(count, per=1.0))
        first, second, third = (post_in(board) for _ in range(3))
        assert _fail_for(board, SHORT, counted=False) == first
        assert states_of(board, second, third) == [BLOCKED, BLOCKED]
        order: list[str] = []

        def are_all_run() -> bool:
            order.extend(run_to_the_end(board))
            return board.job_count == 0

        eventually(are_all_run)
        assert order == uuids_of([first, second, third])

    @of_lanes
    @pytest.mark.parametrize("is_due_first", [True, False], ids=["due before its pause", "due in its pause"])
    def test_nothing_of_a_strict_lane_passes_a_job_that_failed_after_a_pause(
        self, board: JobBoard, is_due_first: bool
    ) -> None:
        limit(board, 1, order="strict")
        first, second, third = (post_in(board) for _ in range(3))
        assert _fail_for(board, LONG) == first
        for is_due in (is_due_first, not is_due_first):
            if is_due:
                board.run_now(first)
            else:
                board.pause(lane=LANE)
        assert states_of(board, first) == [BLOCKED]
        board.resume(lane=LANE)
        assert run_to_the_end(board) == uuids_of([first, second, third])

    @of_lanes
    def test_a_look_at_a_lane_shows_who_waits_for_a_retry_last(self, board: JobBoard) -> None:
        limit(board, 4, order="strict")
        first, second, third, fourth, fifth = (post_in(board) for _ in range(5))
        assert [_fail_for(board, LONG) for _ in range(2)] == [first, second]
        assert claim_one(board) == third
        assert states_of(board, fourth, fifth) == [UNCLAIMED, BLOCKED]
        lane_of = client_of(board).backend.limits.lane
        for count in range(5):
            holders = [row.uuid for row in lane_of(LANE, count).holders]
            assert holders[:2] == uuids_of([third, fourth])[:count]
            assert len(set(holders)) == count
            assert set(holders[2:]) <= set(uuids_of([first, second]))
        assert [row.attempts for row in lane_of(LANE, 4).holders] == [1, 0, 1, 1]

    @of_lanes
    @pytest.mark.parametrize("counted", [True, False])
    def test_a_job_that_waits_for_a_retry_holds_no_slot_of_a_free_lane(self, board: JobBoard, counted: bool) -> None:
        limit(board, 1)
        first, second, third = (post_in(board) for _ in range(3))
        assert _fail_for(board, SHORT, counted=counted) == first
        assert states_of(board, second, third) == [UNCLAIMED, BLOCKED]
        eventually(lambda: states_of(board, first) == [BLOCKED])
        assert run_to_the_end(board) == uuids_of([second, third, first])

    @of_lanes
    @both_orders
    @pytest.mark.parametrize("end", [end for end, _ in KEEPING.values()], ids=KEEPING.keys())
    def test_a_job_that_comes_back_at_once_is_the_next_one(self, board: JobBoard, order: str, end: End) -> None:
        limit(board, 1, order=order)
        first, second = post_in(board), post_in(board)
        end(board, claim_one(board))
        assert run_to_the_end(board) == uuids_of([first, second])

    @of_lanes
    @both_orders
    def test_a_job_that_is_due_later_holds_nobody(self, board: JobBoard, order: str) -> None:
        limit(board, 1, order=order)
        later, second, third = post_in(board, delay=LONG), post_in(board), post_in(board)
        assert states_of(board, later, second, third) == [DELAYED, UNCLAIMED, BLOCKED]
        assert run_to_the_end(board) == uuids_of([second, third])
        assert states_of(board, later) == [DELAYED]

    @of_lanes
    def test_each_slot_of_a_strict_lane_is_kept(self, board: JobBoard) -> None:
        limit(board, 2, order="strict")
        jobs = [post_in(board) for _ in range(4)]
        running = claim_all(board)
        board.abandon(running[0], "alice", delay=LONG)
        assert states_of(board, *jobs[2:]) == [BLOCKED, BLOCKED]
        board.consume(running[1], "alice")
        assert states_of(board, *jobs) == [DELAYED, JobState.COMPLETE, UNCLAIMED, BLOCKED]

    @of_lanes
    @pytest.mark.parametrize("end", ["cancel", "trash", "the last attempt"])
    def test_a_job_that_waits_for_a_retry_frees_its_slot_when_it_ends(self, board: JobBoard, end: str) -> None:
        limit(board, 1, order="strict")
        first, second = post_in(board, max_attempts=1 if end == "the last attempt" else 5), post_in(board)
        _fail_for(board, LONG)
        if end == "cancel":
            board.cancel(first)
        elif end == "trash":
            board.trash(first, by="an operator")
        assert states_of(board, second) == [UNCLAIMED]

    @of_lanes
    def test_a_retry_that_is_run_now_keeps_its_slot(self, board: JobBoard) -> None:
        limit(board, 1, order="strict")
        first, second = post_in(board), post_in(board)
        _fail_for(board, LONG)
        assert board.run_now(first)
        assert states_of(board, first, second) == [UNCLAIMED, BLOCKED]
        assert run_to_the_end(board) == uuids_of([first, second])

    @of_lanes
    def test_an_expired_claim_of_a_strict_lane_keeps_its_slot(self, board: JobBoard, other: JobBoard) -> None:
        limit(board, 1, order="strict")
        first, second = post_in(board), post_in(board, priority="low")
        board.claim(first, "alice", SHORT)
        let_a_claim_expire(other)
        better = post_in(other, priority="high")
        assert states_of(other, first, second, better) == [UNCLAIMED, BLOCKED, BLOCKED]
        assert run_to_the_end(other) == uuids_of([first, better, second])

    @of_lanes
    def test_a_better_priority_passes_only_what_was_never_claimed(self, board: JobBoard) -> None:
        limit(board, 1, order="strict")
        first = post_in(board)
        better = post_in(board, priority="high")
        assert states_of(board, first, better) == [BLOCKED, UNCLAIMED]
        board.abandon(claim_one(board), "alice")
        best = post_in(board, priority="very_high")
        assert states_of(board, first, better, best) == [BLOCKED, UNCLAIMED, BLOCKED]
        assert run_to_the_end(board) == uuids_of([better, best, first])

    @of_lanes
    def test_another_order_counts_the_retries_anew(self, board: JobBoard) -> None:
        limit(board, 1, order="strict")
        first, second = post_in(board), post_in(board)
        _fail_for(board, LONG)
        assert slots_of(board) == (0, 0, 1)
        limit(board, 1, order="free")
        assert states_of(board, first, second) == [DELAYED, UNCLAIMED]
        limit(board, 1, order="strict")
        assert states_of(board, first, second) == [DELAYED, BLOCKED]

    @of_lanes
    def test_a_replaced_or_restored_job_of_a_strict_lane_waits_its_turn(self, board: JobBoard) -> None:
        limit(board, 1, order="strict")
        first, second = post_in(board, key="k"), post_in(board)
        # Within one millisecond a store may let the older job keep its place.
        time.sleep(0.005)
        assert post_in(board, key="k", if_exists="replace") == first
        assert states_of(board, first, second) == [BLOCKED, UNCLAIMED]
        board.trash(second, by="an operator")
        board.restore(second.uuid)
        assert run_to_the_end(board) == uuids_of([first, second])
