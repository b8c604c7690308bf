"""Signals: sent to a live job before, while or after it waits for them; a job that waits holds nothing."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from jobboard.backends.rows import Abandonment, ClaimAnswer, Fence, Verdict, verdict_of
from jobboard.board import JobBoard, client_of
from jobboard.errors import InvalidPosting, NotFound, UnclaimableJob
from jobboard.events import EventKind, JobEvent
from jobboard.job import Job, Posting
from jobboard.testing.contract.case import LONG, SHORT, claim_one, drain, needs, uuids_of
from jobboard.testing.contract.edge_case import (
    BLOCKED,
    CLAIMED,
    COMPLETE,
    DELAYED,
    TRASHED,
    UNCLAIMED,
    EdgeCase,
    end,
    is_gone,
    lines_of,
    of_edges,
    post_after,
)
from jobboard.testing.contract.lane_case import limit, post_in, slots_of, states_of
from jobboard.testing.contract.waiting import Waiting
from jobboard.testing.deadline import DEADLINE, eventually
from jobboard.testing.harness import Harness
from jobboard.validation import new_uuid


def wait_for(board: JobBoard, job: Job, name: str = "approved", **options: Any) -> ClaimAnswer:
    """End a claim until a signal is sent, as a durable handler's conductor does."""
    fence = Fence(job.uuid, options.pop("who", "alice"), options.pop("token", job.token or 0))
    options.setdefault("counted", False)
    (answer,) = client_of(board).call(
        client_of(board).backend.jobs.abandon, [Abandonment(fence, signal=name, **options)]
    )
    return answer


def post_waiting(board: JobBoard, signal: str = "approved", *, until: float | None = None, **options: Any) -> Job:
    """Post a job that waits for a signal, at most for some seconds."""
    job = board.post("resize", **options)
    board.claim(job, "alice", LONG)
    assert wait_for(board, job, signal, delay=until or 0.0) is Verdict.DONE
    return job


def values_of(board: JobBoard, job: Job) -> dict[str, Any]:
    return {signal.name: signal.value for signal in board.get(job.uuid).signals()}


class SignalCases(EdgeCase):
    @of_edges
    def test_a_job_waits_for_its_signal(self, board: JobBoard, other: JobBoard) -> None:
        jobs = [post_waiting(board, key=str(number)) for number in range(3)]
        assert states_of(other, *jobs) == [BLOCKED] * 3
        assert [board.get(job.uuid).record.attempts for job in jobs] == [0] * 3
        with pytest.raises(UnclaimableJob):
            board.claim(jobs[0], "alice")
        assert board.claim_next("alice", limit=9) == []
        assert (other.stats().blocked, other.stats().claimed, other.job_count) == (3, 0, 3)
        assert other.signal(jobs[1], "approved", {"by": "ada"}) is True
        assert states_of(other, *jobs) == [BLOCKED, UNCLAIMED, BLOCKED]
        assert claim_one(board) == jobs[1]
        assert [values_of(other, job) for job in jobs] == [{}, {"approved": {"by": "ada"}}, {}]

    @of_edges
    def test_a_signal_that_is_there_already_ends_the_wait_at_once(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        assert other.signal(job.uuid, "approved", 1) is True
        board.claim(job, "alice", LONG)
        assert other.signal(job.uuid, "paid", 2) is True
        for name in ("approved", "paid"):
            assert wait_for(board, job, name, delay=LONG) is Verdict.DONE
            assert states_of(other, job) == [UNCLAIMED]
            board.claim(job, "alice", LONG)
        assert values_of(other, job) == {"approved": 1, "paid": 2}
        assert board.get(job.uuid).record.attempts == 1

    @of_edges
    def test_a_signal_does_not_disturb_the_claim(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        assert other.signal(job.uuid, "approved") is True
        assert states_of(other, job) == [CLAIMED]
        board.extend(job, "alice", LONG)
        board.checkpoint(job, "alice", "half")
        board.consume(job, "alice", "whole")
        assert (states_of(other, job), lines_of(other, job, "SIGNALLED")) == ([COMPLETE], 1)

    @of_edges
    def test_a_signal_that_is_sent_twice_is_one(self, board: JobBoard, other: JobBoard) -> None:
        waiting, running = post_waiting(board), board.post("resize")
        for job in (waiting, running):
            assert [other.signal(job.uuid, "approved", number) for number in range(3)] == [True, False, False]
            assert values_of(board, job) == {"approved": 0}
            assert lines_of(board, job, "SIGNALLED") == 1
            end(board, job)

    @of_edges
    def test_another_signal_is_kept_and_wakes_nobody(self, board: JobBoard) -> None:
        job = post_waiting(board)
        names = ["paid", "Approved", "approved ", "größe/{a}*"]
        for number, name in enumerate(names):
            assert board.signal(job, name, number) is True
        assert states_of(board, job) == [BLOCKED]
        assert values_of(board, job) == {name: number for number, name in enumerate(names)}
        assert board.signal(job, "approved") is True
        assert states_of(board, job) == [UNCLAIMED]

    @of_edges
    def test_a_signal_to_a_job_that_is_over_is_refused(self, board: JobBoard) -> None:
        consumed, trashed, cancelled, purged = (post_waiting(board) for _ in range(4))
        board.signal(consumed, "approved")
        end(board, consumed)
        for job in (trashed, purged):
            board.trash(job, by="an operator")
        board.cancel(cancelled)
        board.purge(purged.uuid)
        for uuid in (*uuids_of([consumed, trashed, cancelled, purged]), new_uuid()):
            with pytest.raises(NotFound, match=uuid):
                board.signal(uuid, "late")
        assert values_of(board, consumed) == {"approved": None}
        board.restore(trashed.uuid)
        assert board.signal(trashed, "late") is True

    @of_edges
    def test_a_wait_ends_with_its_time(self, board: JobBoard, other: JobBoard) -> None:
        soon, late, never = (post_waiting(board, until=until) for until in (SHORT, LONG, None))
        eventually(lambda: states_of(other, soon) == [UNCLAIMED])
        assert states_of(other, late, never) == [BLOCKED, BLOCKED]
        assert claim_one(board) == soon
        assert lines_of(other, soon, "DUE") == 1
        assert other.signal(soon, "approved", "late") is True
        assert states_of(other, soon) == [CLAIMED]
        assert values_of(other, soon) == {"approved": "late"}

    @of_edges
    def test_a_wait_of_no_time_is_over_at_once(self, board: JobBoard) -> None:
        job = board.post("resize")
        for moment in (1.0, board._backend.now() - 1.0):
            board.claim(job, "alice", LONG)
            assert wait_for(board, job, run_at=moment) is Verdict.DONE
            assert states_of(board, job) == [UNCLAIMED]

    @of_edges
    def test_a_delay_after_a_wait_is_a_delay(self, board: JobBoard) -> None:
        """Nothing is left of the wait's moment, nor of its signal."""
        job = post_waiting(board, until=LONG)
        board.signal(job, "approved")
        board.claim(job, "alice", LONG)
        board.abandon(job, "alice")
        assert states_of(board, job) == [UNCLAIMED]
        board.claim(job, "alice", LONG)
        board.abandon(job, "alice", delay=LONG)
        assert states_of(board, job) == [DELAYED]
        assert board.run_now(job)
        assert claim_one(board) == job

    @of_edges
    def test_who_waits_for_a_job_wakes_with_its_signal(self, harness: Harness, board: JobBoard) -> None:
        waiting = Waiting(harness, board.name)
        try:
            job = post_waiting(board)
            found = waiting.begin()
            assert board.signal(job, "approved")
            assert found.result(DEADLINE) == job
        finally:
            waiting.end()

    @of_edges
    def test_who_waits_for_a_job_wakes_with_the_end_of_its_wait(self, harness: Harness, board: JobBoard) -> None:
        waiting = Waiting(harness, board.name)
        try:
            found = waiting.begin()
            job = post_waiting(board, until=SHORT, delay=None)
            assert found.result(DEADLINE) == job
        finally:
            waiting.end()

    @of_edges
    @needs(sharded=False)
    def test_a_job_that_waits_holds_no_slot_of_its_lane_or_name(self, board: JobBoard) -> None:
        limit(board, 1)
        board.limits.set(name="resize", running=1)
        first, second, third = (post_in(board) for _ in range(3))
        board.claim(first, "alice", LONG)
        assert wait_for(board, first) is Verdict.DONE
        assert states_of(board, first, second, third) == [BLOCKED, UNCLAIMED, BLOCKED]
        assert slots_of(board) == (0, 1, 1)
        board.claim(second, "alice", LONG)
        assert board.signal(first, "approved")
        assert slots_of(board) == (1, 0, 2)
        board.consume(second, "alice")
        assert uuids_of(drain(board)) == uuids_of([third, first])

    @of_edges
    @needs(sharded=False)
    def test_a_wait_whose_time_is_over_joins_a_lane_that_is_full(self, board: JobBoard) -> None:
        limit(board, 1)
        first, second, third = (post_in(board) for _ in range(3))
        board.claim(first, "alice", LONG)
        assert wait_for(board, first, delay=SHORT) is Verdict.DONE
        board.claim(second, "alice", LONG)
        eventually(lambda: states_of(board, first) == [BLOCKED] and lines_of(board, first, "DUE") == 1)
        assert (slots_of(board), board.audit()) == ((1, 0, 2), [])
        board.consume(second, "alice")
        assert uuids_of(drain(board)) == uuids_of([third, first])

    @of_edges
    def test_a_job_of_a_strict_lane_that_waits_lets_others_pass(self, board: JobBoard) -> None:
        limit(board, 1, order="strict")
        first, second = post_in(board), post_in(board)
        board.claim(first, "alice", LONG)
        assert wait_for(board, first) is Verdict.DONE
        assert uuids_of(drain(board)) == [second.uuid]
        board.signal(first, "approved")
        assert uuids_of(drain(board)) == [first.uuid]

    @of_edges
    def test_a_waiting_job_can_be_cancelled_trashed_and_restored(self, board: JobBoard) -> None:
        cancelled, trashed, purged = (post_waiting(board, until=LONG) for _ in range(3))
        board.cancel(cancelled)
        assert is_gone(board, cancelled)
        for job in (trashed, purged):
            board.trash(job, by="an operator")
        board.purge(purged.uuid)
        assert states_of(board, trashed) == [TRASHED]
        board.restore(trashed.uuid)
        board.claim(trashed, "alice", LONG)
        assert wait_for(board, trashed) is Verdict.DONE
        assert board.signal(trashed, "approved")
        assert uuids_of(drain(board)) == [trashed.uuid]

    @of_edges
    def test_a_waiting_job_keeps_its_key_and_takes_another_priority(self, board: JobBoard) -> None:
        first, second = post_waiting(board, key="k"), post_waiting(board)
        assert board.find("resize", "k") == first
        assert board.post("resize", key="k", if_exists="keep") == first
        assert board.reprioritize(second, "high")
        assert board.run_now(second) is False
        for job in (first, second):
            board.signal(job, "approved")
        assert uuids_of(drain(board)) == uuids_of([second, first])

    @of_edges
    def test_a_replaced_job_does_not_wait_but_asks_for_its_signal_again(self, board: JobBoard) -> None:
        jobs = [post_waiting(board, key=str(number), until=LONG) for number in range(3)]
        board.post("resize", {"new": True}, key="1", if_exists="replace")
        assert states_of(board, *jobs) == [BLOCKED, UNCLAIMED, BLOCKED]
        assert claim_one(board).details == {"new": True}
        assert wait_for(board, jobs[1], token=board.get(jobs[1].uuid).record.token) is Verdict.DONE
        assert states_of(board, *jobs) == [BLOCKED] * 3
        assert board.signal(jobs[1], "approved")
        assert uuids_of(drain(board)) == [jobs[1].uuid]

    @of_edges
    def test_a_cancel_that_was_asked_for_ends_a_job_that_would_wait(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        assert other.cancel(job.uuid) is False
        assert wait_for(board, job) is Verdict.DONE
        assert is_gone(other, job)

    @of_edges
    def test_only_the_claim_begins_a_wait(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        token = job.token or 0
        for options in ({"who": "bob"}, {"token": token + 1}):
            assert verdict_of(wait_for(board, job, **options)) is Verdict.LOST
        assert states_of(board, job) == [CLAIMED]
        assert wait_for(board, job) is Verdict.DONE
        assert wait_for(board, job) is Verdict.REPEATED
        assert board.signal(job, "approved")
        assert wait_for(board, job) is Verdict.REPEATED
        assert states_of(board, job) == [UNCLAIMED]

    @of_edges
    def test_the_last_attempt_may_wait_any_number_of_times(self, board: JobBoard) -> None:
        job = board.post("resize", max_attempts=1)
        for number in range(3):
            board.claim(job, "alice", LONG)
            assert wait_for(board, job, f"signal {number}") is Verdict.DONE
            assert board.signal(job, f"signal {number}", number)
        board.claim(job, "alice", LONG)
        assert board.get(job.uuid).record.attempts == 1
        board.consume(job, "alice")
        assert values_of(board, job) == {f"signal {number}": number for number in range(3)}

    @of_edges
    def test_a_job_that_waits_for_parents_takes_signals(self, board: JobBoard) -> None:
        parent = board.post("resize")
        child = post_after(board, parent)
        assert board.signal(child, "approved", 1) is True
        assert states_of(board, child) == [BLOCKED]
        end(board, parent)
        board.claim(child, "alice", LONG)
        assert wait_for(board, child) is Verdict.DONE
        assert states_of(board, child) == [UNCLAIMED]

    @of_edges
    def test_a_parent_that_waits_for_a_signal_is_open(self, board: JobBoard) -> None:
        parent = post_waiting(board)
        child = post_after(board, parent)
        assert states_of(board, parent, child) == [BLOCKED, BLOCKED]
        board.signal(parent, "approved")
        assert uuids_of(drain(board)) == uuids_of([parent, child])

    @of_edges
    def test_what_is_told_of_a_signal(self, board: JobBoard, other: JobBoard) -> None:
        heard: list[JobEvent] = []
        stop = other.subscribe(heard.append, [EventKind.SIGNALLED])
        try:
            jobs = [board.post("resize"), post_waiting(board)]
            for job in jobs:
                board.signal(job, "approved", by="ada")
            eventually(lambda: len(heard) == 2)
        finally:
            stop()
        assert [(event.uuid, event.who, event.reason) for event in heard] == [
            (job.uuid, "ada", "approved") for job in jobs
        ]
        line = next(line for line in board.get(jobs[0].uuid).history if line.kind is EventKind.SIGNALLED)
        assert (line.who, line.reason) == ("ada", "approved")

    @of_edges
    def test_values_come_back_as_they_were(self, board: JobBoard) -> None:
        values = [
            None,
            True,
            -1,
            2**60,
            0.5,
            "größe",
            b"\x00\xff",
            [1, [2]],
            {"a": {"b": None}},
            datetime(2026, 1, 1, tzinfo=UTC),
        ]
        job = board.post("resize")
        for number, value in enumerate(values):
            assert board.signal(job, str(number), value)
        assert values_of(board, job) == {str(number): value for number, value in enumerate(values)}

    @of_edges
    def test_a_signal_that_cannot_be_stored_changes_nothing(self, board: JobBoard) -> None:
        job = post_waiting(board)
        for value in ("x" * 10_000_000, object(), {"a": {1, 2}}, [math.nan, print]):
            with pytest.raises(InvalidPosting):
                board.signal(job, "approved", value)
        for name in ("", "x" * 256):
            with pytest.raises(ValueError):
                board.signal(job, name)
        assert (states_of(board, job), values_of(board, job)) == ([BLOCKED], {})

    @of_edges
    def test_many_jobs_that_wait_cost_an_idle_claim_nothing(self, board: JobBoard, other: JobBoard) -> None:
        jobs = board.post_many([Posting("resize") for _ in range(60)])
        for job in board.claim_next("alice", limit=60, expiry=LONG):
            wait_for(board, job, delay=LONG)
        assert (other.stats().blocked, other.stats().claimed) == (60, 0)
        assert board.claim_next("alice", limit=60) == []
        for job in jobs[::2]:
            assert other.signal(job.uuid, "approved")
        assert uuids_of(drain(board)) == uuids_of(jobs[::2])
        assert states_of(other, *jobs[1::2]) == [BLOCKED] * 30
