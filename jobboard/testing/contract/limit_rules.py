"""The rules of a board's limits: for a lane, for all lanes with a prefix, and for a name; and pauses of lanes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from jobboard.board import JobBoard
from jobboard.errors import JobBoardError
from jobboard.job import Posting
from jobboard.limit import Rate
from jobboard.testing.contract.case import LONG, claim_one, needs, uuids_of
from jobboard.testing.contract.lane_case import (
    BLOCKED,
    LANE,
    UNCLAIMED,
    LaneCase,
    claim_all,
    limit,
    of_lanes,
    post_in,
    slots_of,
    states_of,
)
from jobboard.testing.contract.waiting import Waiting
from jobboard.testing.deadline import DEADLINE
from jobboard.testing.harness import Harness

#: Lanes whose text before the last colon is "tenant", and others.
_OF_THE_PREFIX, _OTHERS = ("tenant:1", "tenant:größe {7}"), ("tenant", "tenants:1", "tenant:eu:9", "x:tenant:1")

#: What is no text of a lane.
LANES: list[Any] = ["", "a\nb", "\x00", "\x7f", "x" * 256, "ß" * 128, "\ud800", "tenant:", "*", "a*b", "tenant:*",
                    7, b"bytes", ["a"]]  # fmt: skip
#: What is neither a lane nor a prefix with ``:*``.
PATTERNS: list[Any] = ["", "a\nb", "x" * 256, "tenant:", "*", "tenant*", "ten*ant:*", ":*", "tenant::*:*", 7]
RUNNING: list[Any] = [-1, 1.5, math.nan, 10**6 + 1, 10**9, "2", True]
RATES: list[Callable[[], Any]] = [
    lambda: Rate(0, per=60), lambda: Rate(-1, per=60), lambda: Rate(1.5, per=60), lambda: Rate(10**6 + 1, per=60),  # type: ignore[arg-type]
    lambda: Rate(1, per=0), lambda: Rate(1, per=-1), lambda: Rate(1, per=math.inf), lambda: Rate(1, per=math.nan),
    lambda: Rate(1, per=31 * 86_400), lambda: Rate(1, per=60, burst=0), lambda: Rate(1, per=60, burst=1001),
    lambda: Rate(1, per=60, burst=1.5),  # type: ignore[arg-type]
]  # fmt: skip

#: Every public call of limits.
CALLS: dict[str, Callable[[JobBoard], object]] = {
    "set": limit,
    "remove": lambda board: board.limits.remove(lane=LANE),
    "get": lambda board: board.limits.get(lane=LANE),
    "of": lambda board: board.limits.of(LANE),
    "iter": lambda board: list(board.limits),
    "lanes": lambda board: board.limits.lanes(),
    "lane": lambda board: board.limits.lane(LANE),
}

Call = Callable[[JobBoard, Any], object]
#: Each call with the values that it must refuse.
REFUSED: dict[str, tuple[Call, list[Any]]] = {
    "post(lane)": (lambda board, bad: board.post("resize", lane=bad), LANES),
    "post_many(lane)": (lambda board, bad: board.post_many([Posting("resize", lane=bad)]), LANES),
    "set(lane)": (lambda board, bad: board.limits.set(lane=bad, running=1), PATTERNS),
    "set(name)": (lambda board, bad: board.limits.set(name=bad, running=1), ["", "a\nb", "x" * 256, "a:*", 7]),
    "set(running)": (lambda board, bad: board.limits.set(lane=LANE, running=bad), RUNNING),
    "set(running) of a name": (lambda board, bad: board.limits.set(name="resize", running=bad), RUNNING),
    "set(rate)": (lambda board, bad: board.limits.set(lane=LANE, rate=bad), ["30/60", 30, (30, 60)]),
    "set(rate) of a name": (lambda board, bad: board.limits.set(name="resize", rate=bad), [Rate(1, per=60)]),
    "set(order)": (lambda board, bad: board.limits.set(lane=LANE, running=1, order=bad), ["fifo", "", None, 1]),
    "set(by)": (lambda board, bad: board.limits.set(lane=LANE, running=1, by=bad), ["", 7]),
    "set(reason)": (lambda board, bad: board.limits.set(lane=LANE, running=1, reason=bad), [7, b"why"]),
    "set of both, or neither": (lambda board, bad: board.limits.set(running=1, **bad),
                                [{}, {"name": "resize", "lane": LANE}]),
    "get": (lambda board, bad: board.limits.get(**bad), [{}, {"name": "resize", "lane": LANE}, {"lane": "tenant:"}]),
    "of": (lambda board, bad: board.limits.of(bad), ["tenant:*", "", 7]),
    "remove": (lambda board, bad: board.limits.remove(**bad), [{}, {"name": "a", "lane": LANE}, {"lane": "tenant*"}]),
    "pause(lane)": (lambda board, bad: board.pause(lane=bad), PATTERNS),
    "resume(lane)": (lambda board, bad: board.resume(lane=bad), PATTERNS),
    "pause of both": (lambda board, bad: board.pause(bad, lane=LANE), ["resize"]),
}  # fmt: skip


class LimitRuleCases(LaneCase):
    @of_lanes
    @pytest.mark.parametrize("call", REFUSED)
    def test_a_bad_limit_is_refused_and_changes_nothing(self, board: JobBoard, call: str) -> None:
        request, values = REFUSED[call]
        for bad in values:
            with pytest.raises((ValueError, TypeError)):
                request(board, bad)
        assert (list(board.limits), board.job_count) == ([], 0)

    @of_lanes
    def test_a_rate_that_never_refills_is_refused(self, board: JobBoard) -> None:
        for rate in RATES:
            with pytest.raises((ValueError, TypeError)):
                limit(board, None, rate=rate())
        assert list(board.limits) == []

    @of_lanes
    @pytest.mark.parametrize("lane", ["x", "ß" * 127, "x" * 255, "größe/{a} 100%'\"", "a:b:c", "-", " "])
    def test_the_shortest_and_the_longest_lane(self, board: JobBoard, other: JobBoard, lane: str) -> None:
        limit(board, 1, lane)
        jobs = [post_in(board, lane) for _ in range(2)]
        assert states_of(other, *jobs) == [UNCLAIMED, BLOCKED]
        assert (jobs[0].lane, other.get(jobs[1].uuid).lane) == (lane, lane)
        assert slots_of(other, lane) == (0, 1, 1)
        assert [str(rule.lane) for rule in other.limits] == [lane]

    # -- which rule holds ------------------------------------------------------------------------------------------

    @of_lanes
    def test_a_prefix_is_a_limit_of_each_of_its_lanes(self, board: JobBoard) -> None:
        limit(board, 1, "tenant:*")
        jobs = {lane: [post_in(board, lane) for _ in range(2)] for lane in (*_OF_THE_PREFIX, *_OTHERS)}
        states = {lane: states_of(board, *some) for lane, some in jobs.items()}
        assert states == {lane: [UNCLAIMED, BLOCKED] for lane in _OF_THE_PREFIX} | {
            lane: [UNCLAIMED] * 2 for lane in _OTHERS
        }
        for lane in _OF_THE_PREFIX:
            rule = board.limits.of(lane)
            assert rule is not None
            assert (rule.lane, rule.running) == ("tenant:*", 1)
        assert [board.limits.of(lane) for lane in _OTHERS] == [None] * len(_OTHERS)

    @of_lanes
    def test_the_rule_of_a_lane_goes_before_that_of_its_prefix(self, board: JobBoard) -> None:
        limit(board, 1, "tenant:*")
        limit(board, 2, LANE)
        jobs = [post_in(board) for _ in range(3)]
        assert states_of(board, *jobs) == [UNCLAIMED, UNCLAIMED, BLOCKED]
        limit(board, 3, "tenant:*")
        assert slots_of(board) == (0, 2, 1)
        assert board.limits.remove(lane=LANE)
        assert slots_of(board) == (0, 3, 0)
        limit(board, 1, LANE)
        assert slots_of(board) == (0, 1, 2)
        assert board.limits.remove(lane="tenant:*")
        assert slots_of(board) == (0, 1, 2)

    @of_lanes
    def test_a_prefix_that_is_set_later_holds_for_all_its_lanes(self, board: JobBoard) -> None:
        lanes = [f"tenant:{number}" for number in range(5)]
        board.post_many([Posting("resize", lane=lane) for lane in lanes for _ in range(3)])
        post_in(board, "other:1")
        limit(board, 2, "tenant:*")
        assert [slots_of(board, lane) for lane in lanes] == [(0, 2, 1)] * 5
        assert slots_of(board, "other:1") == (0, 1, 0)
        assert board.limits.remove(lane="tenant:*")
        assert [slots_of(board, lane) for lane in lanes] == [(0, 3, 0)] * 5

    # -- the collection --------------------------------------------------------------------------------------------

    @of_lanes
    def test_limits_are_listed_and_read(self, board: JobBoard, other: JobBoard) -> None:
        rate = Rate(30, per=60.0, burst=5)
        board.limits.set(name="resize", running=7, by="ann", reason="a small server")
        limit(board, 2, "tenant:*", order="strict", by="bob")
        board.limits.set(lane="stripe", rate=rate)
        rules = {(rule.name, rule.lane): rule for rule in other.limits}
        assert set(rules) == {("resize", None), (None, "tenant:*"), (None, "stripe")}
        of_name, of_prefix, of_rate = (
            rules[place] for place in (("resize", None), (None, "tenant:*"), (None, "stripe"))
        )
        assert [of_name, of_prefix, of_rate] == [
            other.limits.get(name="resize"), other.limits.get(lane="tenant:*"), other.limits.get(lane="stripe"),
        ]  # fmt: skip
        assert (of_name.running, of_name.by, of_name.reason, of_name.paused) == (7, "ann", "a small server", False)
        assert (of_prefix.running, of_prefix.order, of_prefix.by, of_prefix.rate) == (2, "strict", "bob", None)
        assert (of_rate.running, of_rate.order, of_rate.rate) == (None, "free", rate)
        assert (other.limits.get(name="tenant:*"), other.limits.get(lane=LANE)) == (None, None)

    @of_lanes
    def test_a_limit_that_is_set_again_replaces_the_one_before(self, board: JobBoard) -> None:
        limit(board, 2, rate=Rate(1, per=60), by="ann")
        limit(board, 3, order="strict")
        (rule,) = board.limits
        assert (rule.running, rule.rate, rule.order, rule.by) == (3, None, "strict", None)
        assert (board.limits.remove(lane=LANE), board.limits.remove(lane=LANE)) == (True, False)
        assert (list(board.limits), board.limits.get(lane=LANE)) == ([], None)
        assert board.limits.remove(name="resize") is False

    @of_lanes
    def test_the_longest_lanes_come_first(self, board: JobBoard, other: JobBoard) -> None:
        limit(board, 1, "tenant:*")
        for number in range(4):
            board.post_many([Posting("resize", lane=f"tenant:{number}") for _ in range(1 + number)])
        assert [row.lane for row in other.limits.lanes(2)] == ["tenant:3", "tenant:2"]
        rows = {row.lane: row for row in other.limits.lanes()}
        assert {lane: row.blocked for lane, row in rows.items()} == {f"tenant:{each}": each for each in range(4)}
        claim_one(board)
        row = other.limits.lane("tenant:3")
        assert (row.blocked, row.running + row.claimable) == (3, 1)
        assert slots_of(other, "nobody:1") == (0, 0, 0)

    @of_lanes
    @needs(sharded=False)
    def test_limits_are_those_of_one_board(self, harness: Harness, board: JobBoard) -> None:
        stranger = harness.board()
        limit(board, 1)
        board.limits.set(name="resize", running=1)
        jobs = [post_in(stranger) for _ in range(2)]
        assert list(stranger.limits) == []
        assert set(uuids_of(claim_all(stranger))) == set(uuids_of(jobs))

    # -- pauses of lanes -------------------------------------------------------------------------------------------

    @of_lanes
    @pytest.mark.parametrize("pattern", [LANE, "tenant:*"])
    def test_a_paused_lane_starts_nothing(self, board: JobBoard, other: JobBoard, pattern: str) -> None:
        jobs = [post_in(board) for _ in range(3)]
        stranger = post_in(board, "other:1")
        board.claim(jobs[0], "alice", LONG)
        board.pause(lane=pattern, by="ann", reason="a customer asked")
        assert slots_of(other) == (1, 0, 2)
        assert claim_all(other) == [stranger]
        rule = other.limits.of(LANE)
        assert rule is not None
        assert (rule.paused, rule.by, rule.reason, rule.running) == (True, "ann", "a customer asked", None)
        assert states_of(other, post_in(other)) == [BLOCKED]
        board.consume(jobs[0], "alice")
        assert slots_of(other) == (0, 0, 3)
        board.resume(lane=pattern)
        assert slots_of(other) == (0, 3, 0)
        assert list(other.limits) == []

    @of_lanes
    def test_a_resumed_lane_has_the_limit_from_before(self, board: JobBoard) -> None:
        limit(board, 1, order="strict", by="ann")
        jobs = [post_in(board) for _ in range(3)]
        board.pause(lane=LANE)
        board.pause(lane=LANE)
        assert states_of(board, *jobs) == [BLOCKED] * 3
        board.resume(lane=LANE)
        board.resume(lane=LANE)
        assert states_of(board, *jobs) == [UNCLAIMED, BLOCKED, BLOCKED]
        rule = board.limits.get(lane=LANE)
        assert rule is not None
        assert (rule.running, rule.order, rule.paused) == (1, "strict", False)

    @of_lanes
    def test_a_lane_that_is_resumed_wakes_who_waits(self, harness: Harness, board: JobBoard) -> None:
        board.pause(lane=LANE)
        job = post_in(board)
        waiting = Waiting(harness, board.name)
        try:
            found = waiting.begin()
            board.resume(lane=LANE)
            assert found.result(DEADLINE) == job
        finally:
            waiting.end()

    @of_lanes
    def test_a_pause_of_a_lane_is_no_pause_of_a_name(self, board: JobBoard) -> None:
        board.pause(lane=LANE)
        assert board.paused() == frozenset()
        job = board.post("resize")
        assert claim_one(board) == job

    @of_lanes
    @pytest.mark.parametrize("call", CALLS)
    def test_limits_of_a_closed_board_are_refused(self, board: JobBoard, other: JobBoard, call: str) -> None:
        other.close()
        with pytest.raises(JobBoardError):
            CALLS[call](other)
        assert list(board.limits) == []
