"""Lanes with one slot: one job of each is claimable or claimed, and the others that are due wait for it."""

from __future__ import annotations

import pytest

from jobboard.board import JobBoard
from jobboard.conductor import Conductor, Handlers
from jobboard.errors import NotFound, UnclaimableJob
from jobboard.job import row_of
from jobboard.testing.contract.case import LONG, SHORT, claim_one, drain, let_a_claim_expire, needs, uuids_of
from jobboard.testing.contract.lane_case import (
    BLOCKED,
    DELAYED,
    LANE,
    UNCLAIMED,
    LaneCase,
    kinds_told,
    limit,
    of_lanes,
    post_in,
    post_tied,
    slots_of,
    states_of,
)
from jobboard.testing.contract.waiting import Waiting
from jobboard.testing.deadline import DEADLINE, eventually
from jobboard.testing.harness import Harness

_LANES = ("tenant:1", "tenant:2", "tenant:3")


class LaneCases(LaneCase):
    @of_lanes
    def test_one_job_of_a_lane_can_be_claimed(self, board: JobBoard, other: JobBoard) -> None:
        jobs = [post_tied(board, name=name) for name in ("resize", "rotate", "resize")]
        strangers = [post_tied(board, "tenant:2"), board.post("resize")]
        assert states_of(other, *jobs, *strangers) == [UNCLAIMED, BLOCKED, BLOCKED, UNCLAIMED, UNCLAIMED]
        with pytest.raises(UnclaimableJob):
            board.claim(jobs[1], "alice")
        assert set(uuids_of(other.iterjobs())) == set(uuids_of([*jobs, *strangers]))
        assert set(uuids_of(other.iterjobs(states=[BLOCKED]))) == set(uuids_of(jobs[1:]))
        stats = other.stats()
        assert (stats.unclaimed, stats.blocked, other.job_count) == (3, 2, 5)
        assert {name: numbers.blocked for name, numbers in stats.names.items()} == {"resize": 1, "rotate": 1}
        assert set(uuids_of(board.claim_next("alice", limit=10))) == set(uuids_of([jobs[0], *strangers]))
        assert states_of(other, *jobs[1:]) == [BLOCKED, BLOCKED]

    @of_lanes
    def test_a_cancel_admits_the_next_job(self, board: JobBoard) -> None:
        first, second, third = (post_tied(board) for _ in range(3))
        board.cancel(third)
        board.cancel(first)
        assert uuids_of(board.iterjobs()) == [second.uuid]
        assert claim_one(board) == second

    @of_lanes
    def test_all_jobs_of_a_lane_are_cancelled_and_no_others(self, board: JobBoard, other: JobBoard) -> None:
        """Those that wait go first: none of them is admitted, and started, while others are cancelled."""
        limit(board, 2)
        for name in ("resize", "rotate", "resize", "rotate", "resize"):
            post_tied(board, name=name)
        post_tied(board, delay=LONG)
        claimed = claim_one(board)
        kept = [post_tied(board, "tenant:2"), post_tied(board, "tenant:10"), board.post("resize")]
        assert other.cancel_by_lane(LANE, by="ada", reason="the tenant left") == 6
        assert set(uuids_of(board.iterjobs())) == {claimed.uuid, *uuids_of(kept)}
        assert (claimed.cancelled, slots_of(board)) == (True, (1, 0, 0))
        assert kinds_told(board, claimed)[-1] == "CANCEL_ASKED"
        for wrong in ("", "tenant:*", 7):
            with pytest.raises((TypeError, ValueError)):
                board.cancel_by_lane(wrong)  # type: ignore[arg-type]

    @of_lanes
    def test_jobs_are_admitted_by_priority_and_then_as_they_became_due(self, board: JobBoard) -> None:
        _, low, late = post_tied(board), post_tied(board, priority="low"), post_tied(board, delay=SHORT)
        holder = claim_one(board)
        eventually(lambda: states_of(board, late) == [BLOCKED])
        last, high = post_tied(board), post_tied(board, priority="high")
        board.consume(holder, "alice")
        assert uuids_of(drain(board)) == uuids_of([high, late, last, low])

    @of_lanes
    def test_another_priority_is_another_turn(self, board: JobBoard) -> None:
        holder, second, third = (post_tied(board) for _ in range(3))
        board.reprioritize(third, "high")
        assert states_of(board, holder, second, third) == [BLOCKED, BLOCKED, UNCLAIMED]
        board.reprioritize(third, "low")
        assert states_of(board, holder, second, third) == [UNCLAIMED, BLOCKED, BLOCKED]
        board.claim(holder, "alice", LONG)
        board.reprioritize(third, "high")
        board.consume(holder, "alice")
        assert uuids_of(drain(board)) == uuids_of([third, second])

    @of_lanes
    @needs(sharded=False)
    def test_an_admitted_job_stands_behind_what_can_be_claimed(self, board: JobBoard) -> None:
        tied = [post_tied(board) for _ in range(3)]
        plain = [board.post("resize") for _ in range(2)]
        assert uuids_of(drain(board, limit=1)) == uuids_of([tied[0], *plain, *tied[1:]])

    @of_lanes
    def test_a_delayed_job_holds_no_slot(self, board: JobBoard) -> None:
        delayed, second = post_tied(board, delay=LONG), post_tied(board)
        assert states_of(board, delayed, second) == [DELAYED, UNCLAIMED]
        assert board.run_now(delayed)
        assert states_of(board, delayed, second) == [BLOCKED, UNCLAIMED]
        assert uuids_of(drain(board)) == uuids_of([second, delayed])

    @of_lanes
    def test_a_job_that_comes_back_after_a_delay_does_not_pass_those_that_waited(self, board: JobBoard) -> None:
        """Nothing reads or changes the board between the end of its claim and that of its delay."""
        first, second = post_tied(board), post_tied(board)
        board.abandon(claim_one(board), "alice", delay=SHORT)
        until = board._backend.now() + SHORT
        eventually(lambda: board._backend.now() > until)
        eventually(lambda: states_of(board, first) != [DELAYED])
        assert states_of(board, first, second) == [BLOCKED, UNCLAIMED]

    @of_lanes
    def test_a_delayed_job_takes_a_free_slot_when_it_is_due(self, board: JobBoard) -> None:
        job = post_tied(board, delay=SHORT)
        eventually(lambda: states_of(board, job) == [UNCLAIMED])
        assert claim_one(board) == job

    @of_lanes
    def test_a_blocked_job_can_be_trashed_and_waits_again_once_it_is_restored(self, board: JobBoard) -> None:
        holder, second, third = (post_tied(board) for _ in range(3))
        board.trash(second, by="an operator")
        board.trash(third, by="an operator")
        board.purge(third.uuid)
        assert board.stats().trashed == 1
        board.restore(second.uuid)
        assert states_of(board, holder, second) == [UNCLAIMED, BLOCKED]
        with pytest.raises(NotFound):
            board.get(third.uuid)
        assert uuids_of(drain(board)) == uuids_of([holder, second])

    @of_lanes
    def test_a_restored_job_takes_a_free_slot(self, board: JobBoard) -> None:
        job = post_tied(board)
        board.trash(job, by="an operator")
        board.restore(job.uuid)
        assert claim_one(board) == job

    @of_lanes
    def test_a_blocked_job_keeps_its_key(self, board: JobBoard) -> None:
        holder, second = post_tied(board), post_tied(board, key="cat.png")
        assert board.find("resize", "cat.png") == second
        assert post_tied(board, key="cat.png", if_exists="keep") == second
        assert post_tied(board, key="cat.png", if_exists="replace", priority="low") == second
        assert states_of(board, holder, second) == [UNCLAIMED, BLOCKED]

    @of_lanes
    def test_a_replaced_job_that_waits_is_not_told_to_wait_again(self, board: JobBoard) -> None:
        holder, second = post_tied(board), post_tied(board, key="cat.png", priority="low")
        for priority, expected in (("low", BLOCKED), ("normal", BLOCKED), ("high", UNCLAIMED)):
            replaced = post_tied(board, key="cat.png", if_exists="replace", priority=priority)
            assert (replaced, replaced.record.state) == (second, expected)
        assert states_of(board, holder, second) == [BLOCKED, UNCLAIMED]
        told = ["POSTED", "BLOCKED", "REPLACED", "REPLACED", "REPLACED", "ADMITTED"]
        assert kinds_told(board, second) == told

    @of_lanes
    def test_a_batch_of_ends_admits_one_job_of_each_lane(self, board: JobBoard) -> None:
        jobs = [post_tied(board, lane) for _ in range(3) for lane in _LANES]
        claimed = board.claim_next("alice", limit=10, expiry=LONG)
        assert set(uuids_of(claimed)) == set(uuids_of(jobs[:3]))
        assert board.consume_many(claimed, "alice") == [None] * 3
        assert states_of(board, *jobs[3:]) == [UNCLAIMED] * 3 + [BLOCKED] * 3

    @of_lanes
    def test_a_wait_wakes_on_an_admission(self, harness: Harness, board: JobBoard) -> None:
        waiting = Waiting(harness, board.name)
        try:
            _, second = post_tied(board), post_tied(board)
            claimed = claim_one(board)
            found = waiting.begin()
            board.consume(claimed, "alice")
            assert found.result(DEADLINE) == second
        finally:
            waiting.end()

    @of_lanes
    def test_a_job_that_an_idle_conductor_takes_at_once_has_a_slot_of_its_lane(
        self, harness: Harness, board: JobBoard
    ) -> None:
        limit(board, 1)
        idle, backend = harness.lossy_board(board.name)
        handlers, seen = Handlers(), list[tuple[int, int, int]]()
        handlers.add("resize", lambda job: seen.append(slots_of(board)))
        conductor = Conductor("mill", idle, handlers)
        conductor.start()
        try:
            for _ in range(3):
                eventually(backend.blocked.is_set)
                backend.blocked.clear()
                assert post_in(board).wait(DEADLINE)
        finally:
            conductor.stop()
            idle.close()
        assert seen == [(1, 0, 0)] * 3
        assert slots_of(board) == (0, 0, 0)

    @of_lanes
    @needs(sharded=False)
    def test_the_time_for_which_its_lane_blocks_a_job_is_no_wait_for_a_conductor(self, board: JobBoard) -> None:
        holder, second, outside = post_tied(board), post_tied(board), board.post("resize", priority="low")
        assert claim_one(board) == holder
        let_a_claim_expire(board)
        board.consume(holder, "alice")
        rows = [row_of(job) for job in board.claim_next("alice", limit=2, expiry=LONG)]
        assert [row.uuid for row in rows] == uuids_of([second, outside])
        kept_back, free = (row.last_modified - row.created_on - (row.waited or 0.0) for row in rows)
        assert free < SHORT / 2 < kept_back
