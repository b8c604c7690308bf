"""Pauses of lanes that end by themselves, at a moment by the store's clock."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from jobboard.board import JobBoard, client_of
from jobboard.limit import Limit
from jobboard.testing.contract.case import LONG, SHORT, claim_one, uuids_of
from jobboard.testing.contract.lane_case import (
    BLOCKED,
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
from jobboard.testing.contract.races import at_once
from jobboard.testing.contract.rates import NEAR, starts_of
from jobboard.testing.contract.waiting import Waiting
from jobboard.testing.deadline import DEADLINE, eventually
from jobboard.testing.harness import Harness
from jobboard.validation import moment


def rule_of(board: JobBoard) -> Limit:
    rule = board.limits.of(LANE)
    assert rule is not None
    return rule


class LanePauseCases(LaneCase):
    @of_lanes
    def test_a_pause_of_a_lane_ends_by_itself_and_wakes_who_waits(self, harness: Harness, board: JobBoard) -> None:
        limit(board, 3)
        jobs = [post_in(board) for _ in range(4)]
        held = claim_one(board)
        began = client_of(board).backend.now()
        board.pause(lane=LANE, duration=10 * SHORT, by="w1", reason="429")
        board.pause(lane=LANE, duration=SHORT)
        rule = rule_of(board)
        assert (rule.paused, rule.running, rule.by, rule.reason) == (True, 3, "w1", "429")
        assert slots_of(board) == (1, 0, 3)
        waiting = Waiting(harness, board.name)
        try:
            assert waiting.begin().result(DEADLINE) == jobs[1]
        finally:
            waiting.end()
        claimers = [partial(claim_all, harness.board(board.name), limit=1) for _ in range(3)]
        claims = [outcome for outcome in at_once(*claimers) if isinstance(outcome, list)]
        assert sorted(uuids_of(job for claim in claims for job in claim)) == sorted(uuids_of(jobs[1:3]))
        assert starts_of(board, jobs[1:])[0] >= began + 10 * SHORT - NEAR
        rule = rule_of(board)
        assert (rule.paused, rule.paused_until) == (False, None)
        board.consume(held, "alice")
        assert states_of(board, jobs[3]) == [UNCLAIMED]

    @of_lanes
    def test_the_later_end_of_a_pause_stays_until_a_resume(self, board: JobBoard, other: JobBoard) -> None:
        """Also beside others who set the lane's limit, and whatever becomes of that."""
        job = post_in(board)
        ends = [moment(client_of(board).backend.now() + LONG * number) for number in (1, 2)]
        works = [partial(each.pause, lane=LANE, until=end) for each, end in zip((board, other), ends, strict=True)]
        assert at_once(*works, partial(limit, board, 5)) == [None] * 3
        rule = rule_of(board)
        assert (rule.running, rule.paused, rule.paused_until) == (5, True, ends[1])
        limit(other, 1, order="strict")
        board.pause(lane="tenant:*", until=ends[1] + timedelta(hours=1))
        assert rule_of(other).paused_until == ends[1] + timedelta(hours=1)
        other.resume(lane="tenant:*")
        assert other.limits.remove(lane=LANE)
        assert states_of(board, job, post_in(board)) == [BLOCKED] * 2
        board.pause(lane=LANE)
        board.pause(lane=LANE, until=ends[1])
        rule = rule_of(board)
        assert (rule.running, rule.paused, rule.paused_until) == (None, True, None)
        other.resume(lane=LANE)
        other.pause(lane=LANE, until=moment(1.0))
        assert (list(board.limits), slots_of(board)) == ([], (0, 2, 0))

    @of_lanes
    def test_nothing_is_left_of_a_pause_that_has_ended(self, harness: Harness, board: JobBoard) -> None:
        limits = client_of(board).backend.limits
        limit(board, 1, "tenant:*")
        board.pause(lane=LANE, duration=SHORT, by="w1")
        jobs = [post_in(board) for _ in range(2)]
        eventually(lambda: slots_of(board) == (0, 1, 1))
        client_of(board).backend.maintenance.tidy(100)
        assert [row.limit.lane for row in limits.all()] == ["tenant:*"]
        assert run_to_the_end(board) == uuids_of(jobs)
