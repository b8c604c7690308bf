"""Limits of lanes: as many jobs of a lane as its limit allows are claimable or claimed, and the others wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from jobboard.board import JobBoard
from jobboard.errors import InvalidPosting, UnclaimableJob
from jobboard.events import JobEvent
from jobboard.job import Job, Posting
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, SHORT, claim_one, let_a_claim_expire, needs, uuids_of
from jobboard.testing.contract.lane_case import (
    BLOCKED,
    CLAIMED,
    DELAYED,
    LANE,
    UNCLAIMED,
    LaneCase,
    claim_all,
    kinds_told,
    limit,
    of_lanes,
    post_in,
    run_to_the_end,
    slots_of,
    states_of,
)
from jobboard.testing.contract.waiting import Waiting
from jobboard.testing.deadline import DEADLINE, eventually
from jobboard.testing.faults import Fault, LossyBackend
from jobboard.testing.harness import Harness
from jobboard.types import Priority

End = Callable[[JobBoard, Job], object]


def _abandon_for_later(board: JobBoard, job: Job) -> None:
    board.abandon(job, "alice", delay=LONG)


def _abandon_the_last_attempt(board: JobBoard, job: Job) -> None:
    board.abandon(job, "alice", reason="it fails")


def _cancel_and_abandon(board: JobBoard, job: Job) -> None:
    board.cancel(job)
    board.abandon(job, "alice")


def _cancel_and_release(board: JobBoard, job: Job) -> None:
    board.cancel(job)
    board.release(job, reason="its host is gone")


#: The ends of a claim after which its job holds no slot, and the requests that they send.
FREEING: dict[str, tuple[End, list[str]]] = {
    "consume": (lambda board, job: board.consume(job, "alice"), ["consume"]),
    "trash": (lambda board, job: board.trash(job, "alice"), ["trash"]),
    "abandon for later": (_abandon_for_later, ["abandon"]),
    "abandon the last attempt": (_abandon_the_last_attempt, ["abandon"]),
    "an operator's trash": (lambda board, job: board.trash(job, by="an operator"), ["trash"]),
    "cancel and abandon": (_cancel_and_abandon, ["cancel", "abandon"]),
    "cancel and release": (_cancel_and_release, ["cancel", "release"]),
}
#: The ends of a claim after which its job can be claimed again: it keeps its slot.
KEEPING: dict[str, tuple[End, list[str]]] = {
    "abandon": (lambda board, job: board.abandon(job, "alice"), ["abandon"]),
    "abandon uncounted": (lambda board, job: board.abandon(job, "alice", counted=False), ["abandon"]),
    "release": (lambda board, job: board.release(job, reason="its host is gone"), ["release"]),
}


class LimitCases(LaneCase):
    @of_lanes
    def test_a_lane_without_a_limit_holds_nobody(self, board: JobBoard) -> None:
        jobs = [post_in(board) for _ in range(4)]
        assert [kinds_told(board, job) for job in jobs] == [["POSTED"]] * 4
        assert claim_all(board) == jobs
        assert {job.lane for job in jobs} == {LANE}
        assert board.limits.of(LANE) is None

    @of_lanes
    @pytest.mark.parametrize("running", [1, 2, 3])
    def test_a_lane_has_as_many_slots_as_its_limit(self, board: JobBoard, other: JobBoard, running: int) -> None:
        limit(board, running)
        jobs = [post_in(other) for _ in range(5)]
        assert states_of(board, *jobs) == [UNCLAIMED] * running + [BLOCKED] * (5 - running)
        assert slots_of(other) == (0, running, 5 - running)
        claimed = claim_all(other)
        assert claimed == jobs[:running]
        other.consume(claimed[0], "alice")
        assert slots_of(board) == (running - 1, 1, 4 - running)
        assert set(run_to_the_end(board)) == set(uuids_of(jobs[running:]))

    @of_lanes
    def test_a_batch_enters_a_lane_by_priority(self, board: JobBoard) -> None:
        limit(board, 2)
        wishes: list[Priority] = ["low", "normal", "high", "normal"]
        jobs = board.post_many([Posting("resize", priority=wish, lane=LANE) for wish in wishes])
        assert states_of(board, *jobs) == [BLOCKED, UNCLAIMED, UNCLAIMED, BLOCKED]
        assert [kinds_told(board, job) for job in jobs[:2]] == [["POSTED", "BLOCKED"], ["POSTED"]]
        assert run_to_the_end(board) == [jobs[at].uuid for at in (2, 1, 3, 0)]

    @of_lanes
    @pytest.mark.parametrize("fault", [None, "reply", "request"])
    @pytest.mark.parametrize(("end", "requests"), FREEING.values(), ids=FREEING.keys())
    def test_each_end_frees_one_slot(
        self, board: JobBoard, lossy: LossyBackend, end: End, requests: list[str], fault: Fault | None
    ) -> None:
        """Also if its request is sent twice."""
        limit(board, 2)
        jobs = [post_in(board, max_attempts=1) for _ in range(5)]
        first, second = claim_all(board)
        for request in requests if fault else ():
            lossy.lose(request, fault or "reply")
        end(board, first)
        assert slots_of(board) == (1, 1, 2)
        assert states_of(board, second, *jobs[2:]) == [CLAIMED, UNCLAIMED, BLOCKED, BLOCKED]

    @of_lanes
    @pytest.mark.parametrize("fault", [None, "reply", "request"])
    @pytest.mark.parametrize(("end", "requests"), KEEPING.values(), ids=KEEPING.keys())
    def test_a_job_that_comes_back_at_once_frees_no_slot(
        self, board: JobBoard, lossy: LossyBackend, end: End, requests: list[str], fault: Fault | None
    ) -> None:
        limit(board, 2)
        jobs = [post_in(board) for _ in range(5)]
        first, second = claim_all(board)
        for request in requests if fault else ():
            lossy.lose(request, fault or "reply")
        end(board, first)
        assert slots_of(board) == (1, 1, 3)
        assert states_of(board, first, second, *jobs[2:]) == [UNCLAIMED, CLAIMED, BLOCKED, BLOCKED, BLOCKED]

    @of_lanes
    def test_what_is_over_frees_no_slot_again(self, harness: Harness, board: JobBoard) -> None:
        """A record whose retention is over, a purge, and a cancel of what waits."""
        forgetful = harness.board(board.name, retention=SHORT)
        limit(board, 1)
        first, second, *_, last = (post_in(board, max_attempts=1) for _ in range(5))
        forgetful.consume(claim_one(forgetful), "alice")
        board.trash(claim_one(board), "alice")
        let_a_claim_expire(board)
        board.purge(second.uuid)
        board.cancel(last)
        assert slots_of(board) == (0, 1, 1)
        assert first.uuid not in uuids_of(board.iterjobs(states=set(JobState)))

    @of_lanes
    @pytest.mark.parametrize(("attempts", "states"), [(None, [UNCLAIMED, BLOCKED]), (1, [JobState.TRASHED, UNCLAIMED])])
    def test_an_expired_claim_frees_its_slot_if_its_job_does_not_come_back(
        self, board: JobBoard, other: JobBoard, attempts: int | None, states: list[JobState]
    ) -> None:
        limit(board, 1)
        first, second = post_in(board, max_attempts=attempts), post_in(board)
        board.claim(first, "alice", SHORT)
        let_a_claim_expire(other)
        assert states_of(other, first, second) == states

    # -- changes of a limit ----------------------------------------------------------------------------------------

    @of_lanes
    def test_a_lowered_limit_stops_nobody_and_starts_nobody_until_it_fits(self, board: JobBoard) -> None:
        limit(board, 5)
        for _ in range(8):
            post_in(board)
        running = claim_all(board)
        limit(board, 2)
        assert slots_of(board) == (5, 0, 3)
        for left in (4, 3, 2):
            board.consume(running.pop(), "alice")
            assert slots_of(board) == (left, 0, 3)
        board.extend(running[0], "alice", LONG)
        board.consume(running.pop(), "alice")
        assert slots_of(board) == (1, 1, 2)

    @of_lanes
    def test_a_limit_that_is_removed_and_set_again_counts_what_runs(self, board: JobBoard) -> None:
        for _ in range(5):
            post_in(board)
        running = claim_all(board)
        for _ in range(2):
            post_in(board)
        limit(board, 2)
        assert board.limits.remove(lane=LANE)
        assert slots_of(board) == (5, 2, 0)
        limit(board, 2)
        for left in (4, 3, 2):
            board.consume(running.pop(), "alice")
            assert slots_of(board) == (left, 0, 2)
        board.consume(running.pop(), "alice")
        assert slots_of(board) == (1, 1, 1)

    @of_lanes
    def test_a_limit_withdraws_what_can_be_claimed_the_last_first(self, board: JobBoard) -> None:
        jobs = [post_in(board, priority=wish) for wish in ("low", "normal", "high", "normal")]
        limit(board, 2)
        assert states_of(board, *jobs) == [BLOCKED, UNCLAIMED, UNCLAIMED, BLOCKED]
        with pytest.raises(UnclaimableJob):
            board.claim(jobs[0], "alice")
        # A withdrawal is no line of the history.
        assert [kinds_told(board, job) for job in jobs] == [["POSTED"]] * 4
        limit(board, 10)
        assert run_to_the_end(board) == [jobs[at].uuid for at in (2, 1, 3, 0)]

    @of_lanes
    def test_a_withdrawn_job_waits_at_its_old_place(self, board: JobBoard) -> None:
        limit(board, 1)
        first, second, third = (post_in(board) for _ in range(3))
        limit(board, 3)
        limit(board, 1)
        assert states_of(board, first, second, third) == [UNCLAIMED, BLOCKED, BLOCKED]
        limit(board, 2)
        assert states_of(board, first, second, third) == [UNCLAIMED, UNCLAIMED, BLOCKED]

    @of_lanes
    def test_a_raised_limit_wakes_as_many_as_it_lets_run(self, harness: Harness, board: JobBoard) -> None:
        limit(board, 1)
        jobs = [post_in(board) for _ in range(7)]
        assert claim_all(board) == jobs[:1]
        waiting = [Waiting(harness, board.name) for _ in range(2)]
        try:
            found = [each.begin() for each in waiting]
            limit(board, 5)
            assert {each.result(DEADLINE) for each in found} <= set(jobs[1:5])
        finally:
            for each in waiting:
                each.end()
        assert claim_all(board) == jobs[1:5]

    @of_lanes
    def test_a_removed_limit_wakes_who_waits(self, harness: Harness, board: JobBoard) -> None:
        limit(board, 0)
        job = post_in(board)
        waiting = Waiting(harness, board.name)
        try:
            found = waiting.begin()
            board.limits.remove(lane=LANE)
            assert found.result(DEADLINE) == job
        finally:
            waiting.end()

    @of_lanes
    @pytest.mark.parametrize("fault", ["reply", "request"])
    @pytest.mark.parametrize("primitive", ["limits.put", "limits.lanes", "limits.look", "limits.finish"])
    def test_a_limit_whose_reply_is_lost_is_set_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, primitive: str, fault: Fault
    ) -> None:
        jobs = [post_in(board) for _ in range(3)]
        lossy.lose(primitive, fault)
        limit(board, 2)
        assert states_of(other, *jobs) == [UNCLAIMED, UNCLAIMED, BLOCKED]
        lossy.lose(primitive, fault)
        assert board.limits.remove(lane=LANE)
        assert states_of(other, *jobs) == [UNCLAIMED] * 3
        assert list(other.limits) == []

    @of_lanes
    @pytest.mark.parametrize("pattern", [LANE, "tenant:*"])
    def test_an_audit_is_silent_about_a_limit_that_is_being_set(
        self, board: JobBoard, other: JobBoard, monkeypatch: pytest.MonkeyPatch, pattern: str
    ) -> None:
        lanes = [LANE, "tenant:2", "tenant:3"]
        jobs = [post_in(board, lane) for lane in lanes for _ in range(3)]
        with monkeypatch.context() as killed:
            killed.setattr("jobboard.board.limits.sweep", lambda *_: None)
            limit(board, 1, pattern)
            assert other.audit() == []
        limit(board, 1, pattern)
        assert states_of(other, *jobs[:3]) == [UNCLAIMED, BLOCKED, BLOCKED]
        with monkeypatch.context() as killed:
            killed.setattr("jobboard.board.limits.sweep", lambda *_: None)
            assert board.limits.remove(lane=pattern)
            assert other.audit() == []
        # The removal is to be gone on with.
        limit(board, 2, pattern)
        assert states_of(other, *jobs[:3]) == [UNCLAIMED, UNCLAIMED, BLOCKED]

    @of_lanes
    def test_more_jobs_are_withdrawn_and_admitted_than_one_look_moves(self, board: JobBoard) -> None:
        board.post_many([Posting("resize", lane=LANE) for _ in range(130)])
        limit(board, 3)
        eventually(lambda: slots_of(board) == (0, 3, 127))
        limit(board, 120)
        eventually(lambda: slots_of(board) == (0, 120, 10))
        assert len(claim_all(board, limit=200)) == 120

    @of_lanes
    def test_a_limit_of_zero_is_a_pause(self, board: JobBoard) -> None:
        limit(board, 0)
        job = post_in(board)
        assert states_of(board, job) == [BLOCKED]
        assert claim_all(board) == []
        limit(board, 1)
        assert claim_all(board) == [job]

    # -- better jobs -----------------------------------------------------------------------------------------------

    @of_lanes
    @pytest.mark.parametrize("running", [1, 2])
    def test_a_better_priority_takes_the_slot_of_what_is_not_claimed(self, board: JobBoard, running: int) -> None:
        limit(board, running)
        jobs = [post_in(board) for _ in range(running + 1)]
        better = post_in(board, priority="high")
        assert states_of(board, better, *jobs) == [UNCLAIMED] * running + [BLOCKED] * 2
        assert run_to_the_end(board) == uuids_of([better, *jobs])

    @of_lanes
    def test_a_better_priority_waits_for_what_is_claimed(self, board: JobBoard) -> None:
        limit(board, 1)
        holder, second = post_in(board), post_in(board)
        claimed = claim_one(board)
        better = post_in(board, priority="high")
        assert states_of(board, holder, second, better) == [CLAIMED, BLOCKED, BLOCKED]
        board.consume(claimed, "alice")
        assert run_to_the_end(board) == uuids_of([better, second])

    @of_lanes
    def test_a_job_that_becomes_due_takes_the_slot_of_a_worse_one(self, board: JobBoard) -> None:
        limit(board, 1)
        worse = post_in(board, priority="low")
        better = post_in(board, delay=SHORT)
        eventually(lambda: states_of(board, better, worse) == [UNCLAIMED, BLOCKED])

    # -- replacements ----------------------------------------------------------------------------------------------

    @of_lanes
    @pytest.mark.parametrize("lane", [None, "tenant:2"])
    @needs(sharded=False)
    def test_a_replacement_may_not_change_the_lane(self, board: JobBoard, lane: str | None) -> None:
        job = post_in(board, key="k", details={"n": 1})
        with pytest.raises(InvalidPosting):
            board.post("resize", {"n": 2}, lane=lane, key="k", if_exists="replace")
        plain = board.post("resize", {"n": 1}, key="plain")
        replacement = Posting("resize", details={"n": 2}, key="plain", if_exists="replace", lane=LANE)
        with pytest.raises(InvalidPosting):
            board.post_many([Posting("rotate"), replacement])
        assert [board.get(each.uuid).details for each in (job, plain)] == [{"n": 1}] * 2
        assert board.job_count == 2

    @of_lanes
    def test_a_replacement_in_its_lane_joins_anew(self, board: JobBoard) -> None:
        limit(board, 1)
        first, second = post_in(board, key="k"), post_in(board)
        # A store whose moments are milliseconds takes two of one for even, and then the first one posted comes first.
        time.sleep(0.005)
        assert post_in(board, key="k", if_exists="replace", details={"n": 2}) == first
        assert states_of(board, first, second) == [BLOCKED, UNCLAIMED]
        assert run_to_the_end(board) == uuids_of([second, first])

    # -- telling ---------------------------------------------------------------------------------------------------

    @of_lanes
    def test_a_job_that_waits_is_told_and_so_is_its_admission(self, board: JobBoard) -> None:
        events: list[JobEvent] = []
        board.subscribe(events.append)
        limit(board, 1)
        first, second = post_in(board), post_in(board)

        def heard(job: Job) -> list[str]:
            return [str(event.kind) for event in events if event.uuid == job.uuid]

        board.consume(claim_one(board), "alice")
        assert kinds_told(board, second) == ["POSTED", "BLOCKED", "ADMITTED"]
        eventually(lambda: heard(second) == ["POSTED", "BLOCKED", "ADMITTED"])
        eventually(lambda: heard(first) == ["POSTED", "CLAIMED", "CONSUMED"])
        limit(board, 0)
        eventually(lambda: heard(second)[-1] == "BLOCKED")
        assert kinds_told(board, second) == ["POSTED", "BLOCKED", "ADMITTED"]
        eventually(lambda: [str(event.kind) for event in events].count("LIMITED") == 2)

    @of_lanes
    def test_the_jobs_of_a_lane_are_listed(self, board: JobBoard, other: JobBoard) -> None:
        limit(board, 1)
        jobs: list[Any] = [post_in(board, name=name) for name in ("resize", "rotate", "resize")]
        post_in(board, "tenant:2")
        board.post("resize")
        jobs.append(post_in(board, delay=LONG))
        assert set(uuids_of(other.iterjobs(lane=LANE))) == set(uuids_of(jobs))
        assert uuids_of(other.iterjobs(lane=LANE, states=[BLOCKED], names=["rotate"])) == [jobs[1].uuid]
        assert states_of(other, jobs[-1]) == [DELAYED]
        assert other.stats().blocked == 2
