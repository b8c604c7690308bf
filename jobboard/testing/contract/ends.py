"""What the owner of a claim does with it: consume, abandon, trash, extend, checkpoint (promise 4)."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobboard.board import JobBoard
from jobboard.errors import ClaimLost, InvalidPosting, NotFound
from jobboard.events import EventKind
from jobboard.states import JobState
from jobboard.testing.contract.case import (
    LONG,
    NEVER,
    SHORT,
    SLACK,
    Case,
    claim_one,
    let_a_claim_expire,
    needs,
    snapshot,
    state_of,
    uuids_of,
)
from jobboard.testing.deadline import eventually
from jobboard.testing.harness import Harness


class ConsumeCases(Case):
    def test_a_consumed_job_is_off_the_board_and_its_record_stays(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize", details={"path": "/a"})
        token = board.claim(job, "alice")
        board.consume(job, "alice", {"size": [1, 2], "ok": True})
        assert (board.job_count, list(board.iterjobs()), board.claim_next("bob")) == (0, [], [])
        record = other.get(job.uuid).record
        assert (record.state, record.result) == (JobState.COMPLETE, {"size": [1, 2], "ok": True})
        assert (record.owner, record.token, record.attempts) == ("alice", token, 1)
        assert (record.expires_at, record.last_error) == (None, None)
        assert other.get(job.uuid).details == {"path": "/a"}

    def test_consume_without_a_result_has_none(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        board.consume(job, "alice")
        assert (job.state, job.result) == (JobState.COMPLETE, None)

    def test_a_consume_is_written_down_in_the_history(self, board: JobBoard) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice")
        board.consume(job, "alice")
        assert [line.kind for line in job.history] == [EventKind.POSTED, EventKind.CLAIMED, EventKind.CONSUMED]
        assert (job.history[-1].who, job.history[-1].token) == ("alice", token)

    @pytest.mark.parametrize("result", [{"call": print}, datetime(2030, 1, 1), {1: 2}, b"x" * 600_000])
    def test_a_result_that_cannot_be_stored_leaves_the_claim(self, board: JobBoard, result: Any) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        before = snapshot(board, job)
        with pytest.raises(InvalidPosting, match="result"):
            board.consume(job, "alice", result)
        assert snapshot(board, job) == before
        board.consume(job, "alice", "now it can")
        assert job.result == "now it can"

    def test_nobody_holds_a_job_that_has_ended(self, board: JobBoard) -> None:
        consumed, trashed, abandoned = board.post("resize"), board.post("resize"), board.post("resize")
        for job in board.claim_next("alice", limit=3):
            assert board.find_owner(job) == "alice"
        board.consume(consumed, "alice")
        board.trash(trashed, "alice")
        board.abandon(abandoned, "alice")
        assert [board.find_owner(job) for job in (consumed, trashed, abandoned)] == [None, None, None]
        assert [board.get(job.uuid).expires_in() for job in (consumed, trashed, abandoned)] == [None, None, None]

    def test_two_consumes_are_one_and_a_lost_claim(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        board.consume(job, "alice", 1)
        before = snapshot(board, job)
        with pytest.raises(ClaimLost):
            board.consume(job, "alice", 2)
        assert snapshot(board, job) == before

    def test_without_retention_a_consumed_job_is_gone_at_once(self, harness: Harness) -> None:
        board = harness.board(retention=0)
        job = board.post("resize")
        board.claim(job, "alice")
        board.consume(job, "alice")
        with pytest.raises(NotFound):
            board.get(job.uuid)
        assert list(board.iterjobs(states=list(JobState))) == []

    def test_after_its_retention_a_consumed_job_is_gone(self, harness: Harness) -> None:
        board = harness.board(retention=SHORT)
        job, lasting = board.post("resize"), board.post("resize")
        board.claim(job, "alice")
        board.consume(job, "alice")

        def is_gone() -> bool:
            try:
                return board.get(job.uuid).record.state is not JobState.COMPLETE
            except NotFound:
                return True

        eventually(is_gone)
        assert uuids_of(board.iterjobs(states=list(JobState))) == [lasting.uuid]

    def test_each_end_may_have_a_retention_of_its_own(self, harness: Harness) -> None:
        board = harness.board(retention=0)
        jobs = [board.post("resize") for _ in range(5)]
        for job in jobs:
            board.claim(job, "alice")
        kept = [LONG, None, 0, timedelta(seconds=LONG)]
        assert board.consume_many(jobs[:4], "alice", results=[1, 2, 3, 4], retentions=kept) == [None] * 4
        with pytest.raises(ValueError, match="retention"):
            board.consume(jobs[4], "alice", retention=-1)
        board.consume(jobs[4], "alice", 5, retention=LONG)
        assert uuids_of(board.iterjobs(states=list(JobState))) == [jobs[0].uuid, jobs[3].uuid, jobs[4].uuid]
        assert [board.get(jobs[number].uuid).record.result for number in (0, 3, 4)] == [1, 4, 5]
        for number in (1, 2):
            with pytest.raises(NotFound):
                board.get(jobs[number].uuid)

    def test_of_a_consumed_job_another_client_sees_the_result(self, board: JobBoard, other: JobBoard) -> None:
        mine = board.post("resize")
        board.claim(mine, "alice")
        seen = other.get(mine.uuid)
        board.consume(mine, "alice", {"done": "yes"})
        assert seen.record.state is JobState.CLAIMED
        assert (seen.result, seen.state, seen.record.state) == ({"done": "yes"}, JobState.COMPLETE, JobState.COMPLETE)


class AbandonCases(Case):
    def test_an_abandoned_job_is_claimable_at_once(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice")
        board.abandon(job, "alice", reason="no disk here")
        record = other.get(job.uuid).record
        assert (record.state, record.owner, record.expires_at) == (JobState.UNCLAIMED, None, None)
        assert (record.attempts, record.reason) == (1, "no disk here")
        again = claim_one(other, "bob")
        assert (again.uuid, again.record.attempts) == (job.uuid, 2)
        assert (again.token or 0) > token

    def test_an_abandoned_job_keeps_what_it_was_posted_with(self, board: JobBoard) -> None:
        job = board.post("resize", details={"path": "/a"}, key="a", max_attempts=9)
        board.claim(job, "alice")
        board.abandon(job, "alice")
        now = board.get(job.uuid)
        assert (now.details, now.key, now.sequence, now.max_attempts) == ({"path": "/a"}, "a", job.sequence, 9)

    def test_an_error_becomes_the_last_error(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        board.abandon(job, "alice", reason="ValueError", error="Traceback:\n  ValueError: ü \x00 \ud800")
        record = board.get(job.uuid).record
        assert record.reason == "ValueError"
        assert "ValueError: ü" in (record.last_error or "")

    def test_a_reason_without_an_error_becomes_the_last_error(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        board.abandon(job, "alice", reason="it rains")
        assert job.last_error == "it rains"

    def test_abandon_with_a_delay_waits_for_it(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        board.abandon(job, "alice", delay=LONG)
        assert (state_of(board, job), board.claim_next("bob")) == (JobState.DELAYED, [])
        run_at = board.get(job.uuid).run_at
        assert run_at is not None
        assert abs(run_at - datetime.now(UTC) - timedelta(seconds=LONG)) < timedelta(seconds=60)

    def test_abandon_with_a_short_delay_is_claimable_after_it(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        board.abandon(job, "alice", delay=SHORT)
        [again] = eventually(lambda: board.claim_next("bob"))
        assert again == job

    def test_abandon_for_a_moment_waits_for_it(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        run_at = datetime.now(UTC) + timedelta(hours=3)
        board.abandon(job, "alice", run_at=run_at)
        assert (state_of(board, job), board.get(job.uuid).run_at) == (JobState.DELAYED, run_at)

    def test_abandon_is_written_down_in_the_history(self, board: JobBoard) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice")
        board.abandon(job, "alice", reason="no disk here")
        line = job.history[-1]
        assert (line.kind, line.who, line.token, line.reason) == (EventKind.ABANDONED, "alice", token, "no disk here")

    def test_two_abandons_are_one_and_a_lost_claim(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        board.abandon(job, "alice")
        before = snapshot(board, job)
        with pytest.raises(ClaimLost):
            board.abandon(job, "alice", reason="again")
        assert snapshot(board, job) == before


class TrashCases(Case):
    def test_a_trashed_job_is_off_the_board_with_its_reason(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize", details={"path": "/a"})
        token = board.claim(job, "alice")
        board.trash(job, "alice", reason="no such file", error="Traceback ...")
        assert (board.job_count, list(board.iterjobs()), board.claim_next("bob")) == (0, [], [])
        [trashed] = other.trashed()
        assert (trashed.uuid, trashed.details) == (job.uuid, {"path": "/a"})
        record = trashed.record
        assert (record.state, record.reason, record.last_error) == (JobState.TRASHED, "no such file", "Traceback ...")
        assert (record.token, record.attempts, record.expires_at) == (token, 1, None)

    def test_trash_is_written_down_in_the_history(self, board: JobBoard) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice")
        board.trash(job, "alice", reason="no such file")
        line = job.history[-1]
        assert (line.kind, line.who, line.token, line.reason) == (EventKind.TRASHED, "alice", token, "no such file")

    @pytest.mark.parametrize("state", [JobState.UNCLAIMED, JobState.DELAYED, JobState.CLAIMED])
    def test_an_operator_trashes_whatever_is_on_the_board(
        self, board: JobBoard, other: JobBoard, state: JobState
    ) -> None:
        job = board.post("resize", delay=LONG if state is JobState.DELAYED else None)
        if state is JobState.CLAIMED:
            board.claim(job, "alice")
        assert state_of(board, job) is state
        other.trash(other.get(job.uuid), by="an operator", reason="runaway")
        record = board.get(job.uuid).record
        assert (record.state, record.reason) == (JobState.TRASHED, "runaway")
        assert (board.job_count, board.claim_next("bob")) == (0, [])

    def test_an_operator_trashes_twice_and_the_first_reason_stays(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.trash(job, by="an operator", reason="runaway")
        before = snapshot(board, job)
        board.trash(job, by="another operator", reason="again")
        assert snapshot(board, job) == before

    def test_an_operator_is_named_in_the_history(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.trash(job, by="an operator", reason="runaway")
        assert (job.history[-1].who, job.history[-1].reason) == ("an operator", "runaway")

    def test_an_operator_cannot_trash_what_is_not_on_the_board(self, board: JobBoard) -> None:
        job, gone = board.post("resize"), board.post("resize")
        board.claim(job, "alice")
        board.consume(job, "alice")
        board.cancel(gone)
        for absent in (job, gone):
            with pytest.raises(NotFound):
                board.trash(absent, by="an operator", reason="runaway")
        assert state_of(board, job) is JobState.COMPLETE


class ExtendCases(Case):
    @needs(expiry="time")
    def test_an_extended_claim_outlives_its_first_expiry(self, board: JobBoard) -> None:
        job = board.post("resize")

        def is_extended_in_time() -> bool:
            board.claim(job, "alice", 1.0)
            with suppress(ClaimLost):
                board.extend(job, "alice", LONG)
            return state_of(board, job) is JobState.CLAIMED

        eventually(is_extended_in_time)
        let_a_claim_expire(board, 1.0)
        assert board.find_owner(job) == "alice"
        assert LONG - 60 < (job.expires_in() or 0) <= LONG + SLACK
        board.consume(job, "alice")

    @needs(expiry="time")
    def test_a_claim_can_be_extended_again_and_again(self, board: JobBoard) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice", LONG)
        for number in range(1, 7):
            board.extend(job, "alice", LONG + 100 * number)
            assert LONG + 100 * number - 60 < (job.expires_in() or 0) <= LONG + 100 * number + SLACK
        assert (board.find_owner(job), board.get(job.uuid).record.token, job.attempts) == ("alice", token, 1)

    @needs(expiry="time")
    def test_a_claim_can_be_made_to_end_sooner(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        board.extend(job, "alice", SHORT)
        eventually(lambda: state_of(board, job) is JobState.UNCLAIMED)

    @needs(expiry="time")
    def test_a_claim_for_ever_can_be_given_an_end(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice", NEVER)
        board.extend(job, "alice", SHORT)
        eventually(lambda: state_of(board, job) is JobState.UNCLAIMED)

    @needs(expiry="time")
    def test_a_claim_can_be_extended_for_ever(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice", 1.0)
        board.extend(job, "alice", NEVER)
        let_a_claim_expire(board, 1.0)
        assert (board.find_owner(job), job.expires_in()) == ("alice", math.inf)

    @needs(expiry="time")
    def test_extend_without_seconds_takes_the_default_of_the_board(self, harness: Harness) -> None:
        board = harness.board(expiry=LONG)
        job = board.post("resize")
        board.claim(job, "alice", 5)
        board.extend(job, "alice")
        assert LONG - 60 < (job.expires_in() or 0) <= LONG + SLACK

    def test_extend_leaves_the_history_alone(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        for _ in range(30):
            board.extend(job, "alice", LONG)
        assert [line.kind for line in job.history] == [EventKind.POSTED, EventKind.CLAIMED]

    def test_the_handle_extends_its_own_claim(self, board: JobBoard) -> None:
        board.post("resize")
        job = claim_one(board, expiry=5)
        assert job.extend_expiry(LONG) is True
        assert board.find_owner(job) == "alice"
        board.release(job, reason="its host is gone")
        assert job.extend_expiry(LONG) is False

    def test_a_handle_that_claimed_nothing_extends_nothing(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        before = snapshot(board, job)
        try:
            assert other.get(job.uuid).extend_expiry(LONG) is False
        except ClaimLost:
            pass
        assert snapshot(board, job) == before


class CheckpointCases(Case):
    def test_the_next_owner_reads_the_checkpoint(self, board: JobBoard, other: JobBoard) -> None:
        board.post("resize")
        job = claim_one(board)
        board.checkpoint(job, "alice", {"page": 1})
        board.checkpoint(job, "alice", {"page": 2, "seen": ["a", b"\xff"]})
        board.abandon(job, "alice")
        again = claim_one(other, "bob")
        assert again.record.checkpoint == again.checkpoint == {"page": 2, "seen": ["a", b"\xff"]}

    def test_the_handle_writes_its_own_checkpoint(self, board: JobBoard, other: JobBoard) -> None:
        board.post("resize")
        job = claim_one(board)
        job.checkpoint_state(["half", 1])
        assert other.get(job.uuid).checkpoint == ["half", 1]

    def test_a_handle_that_lost_its_claim_writes_no_checkpoint(self, board: JobBoard, other: JobBoard) -> None:
        board.post("resize")
        job = claim_one(board)
        job.checkpoint_state("mine")
        other.release(other.get(job.uuid), reason="its host is gone")
        with pytest.raises(ClaimLost):
            job.checkpoint_state("late")
        with pytest.raises(ClaimLost):
            other.get(job.uuid).checkpoint_state("a stranger's")
        assert other.get(job.uuid).checkpoint == "mine"

    def test_a_checkpoint_leaves_the_claim_and_the_history_alone(self, board: JobBoard) -> None:
        board.post("resize")
        job = claim_one(board)
        before = snapshot(board, job)
        board.checkpoint(job, "alice", "half")
        after = snapshot(board, job)
        assert after._replace(checkpoint=None, last_modified=None) == before._replace(last_modified=None)

    def test_a_checkpoint_of_512_kib_arrives(self, board: JobBoard) -> None:
        board.post("resize")
        job = claim_one(board)
        state = "x" * (512 * 1024 - 5)
        board.checkpoint(job, "alice", state)
        assert board.get(job.uuid).checkpoint == state

    @pytest.mark.parametrize("state", [{"call": print}, {1: 2}, b"x" * 600_000])
    def test_a_checkpoint_that_cannot_be_stored_leaves_the_last_one(self, board: JobBoard, state: Any) -> None:
        board.post("resize")
        job = claim_one(board)
        board.checkpoint(job, "alice", "half")
        with pytest.raises(InvalidPosting, match="checkpoint"):
            board.checkpoint(job, "alice", state)
        assert board.get(job.uuid).checkpoint == "half"

    def test_a_checkpoint_outlives_the_trash(self, board: JobBoard) -> None:
        board.post("resize")
        job = claim_one(board)
        board.checkpoint(job, "alice", "half")
        board.trash(job, "alice")
        assert board.restore(job.uuid).checkpoint == "half"
