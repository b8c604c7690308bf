"""Attempts: a claim counts when it is made, so that poison stops (promise 6)."""

from __future__ import annotations

import pytest

from jobboard.board import JobBoard
from jobboard.events import EventKind
from jobboard.states import JobState
from jobboard.testing.contract.case import (
    LONG,
    SHORT,
    Case,
    claim_one,
    needs,
    state_of,
    until_expired,
    uuids_of,
)
from jobboard.testing.deadline import eventually


class AttemptCases(Case):
    def test_a_claim_is_an_attempt_as_soon_as_it_is_made(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        for attempt in range(1, 12):
            claimed = claim_one(board)
            assert claimed.record.attempts == other.get(job.uuid).record.attempts == attempt
            board.abandon(claimed, "alice")
        assert state_of(board, job) is JobState.UNCLAIMED

    def test_a_refused_claim_is_no_attempt(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        for _ in range(3):
            with pytest.raises(Exception, match="alice"):
                other.claim(other.get(job.uuid), "bob")
        assert job.attempts == 1

    @pytest.mark.parametrize("most", [1, 2, 12])
    def test_a_job_abandoned_max_attempts_times_is_trashed(self, board: JobBoard, most: int) -> None:
        job = board.post("resize", max_attempts=most)
        for attempt in range(1, most + 1):
            assert state_of(board, job) is JobState.UNCLAIMED
            board.abandon(claim_one(board), "alice", reason=f"failure {attempt}", error=f"Traceback {attempt}")
        record = board.get(job.uuid).record
        assert (record.state, record.attempts, record.last_error) == (JobState.TRASHED, most, f"Traceback {most}")
        assert (board.claim_next("alice"), uuids_of(board.trashed()), board.job_count) == ([], [job.uuid], 0)
        assert job.history[-1].kind is EventKind.TRASHED

    @needs(expiry="time")
    @pytest.mark.parametrize("most", [1, 2])
    def test_a_job_that_kills_its_process_max_attempts_times_is_trashed(self, board: JobBoard, most: int) -> None:
        job = board.post("resize", max_attempts=most)
        for attempt in range(1, most + 1):
            assert claim_one(board, f"process {attempt}", expiry=SHORT) == job
            until_expired(board, job)
        record = board.get(job.uuid).record
        assert (record.state, record.attempts) == (JobState.TRASHED, most)
        assert (board.claim_next("alice"), uuids_of(board.trashed()), board.job_count) == ([], [job.uuid], 0)

    @needs(expiry="time")
    def test_poison_is_not_claimed_once_more_by_whoever_finds_it_expired(
        self, board: JobBoard, other: JobBoard
    ) -> None:
        poison, healthy = board.post("resize", max_attempts=1), board.post("resize")
        board.claim(poison, "alice", SHORT)
        board.claim(healthy, "alice", SHORT)
        assert eventually(lambda: other.claim_next("bob", limit=9)) == [healthy]
        assert state_of(other, poison) is JobState.TRASHED

    def test_the_last_attempt_may_succeed(self, board: JobBoard) -> None:
        job = board.post("resize", max_attempts=2)
        board.abandon(claim_one(board), "alice")
        last = claim_one(board)
        board.extend(last, "alice", LONG)
        board.consume(last, "alice", "at last")
        assert (job.state, job.result, job.attempts) == (JobState.COMPLETE, "at last", 2)

    def test_an_uncounted_return_gives_the_attempt_back(self, board: JobBoard) -> None:
        job = board.post("resize", max_attempts=1)
        tokens = []
        for _ in range(4):
            claimed = claim_one(board)
            assert claimed.record.attempts == 1
            tokens.append(claimed.token)
            board.abandon(claimed, "alice", counted=False)
            assert (state_of(board, job), board.get(job.uuid).record.attempts) == (JobState.UNCLAIMED, 0)
        assert tokens == sorted(set(tokens), key=lambda token: token or 0)

    def test_an_uncounted_return_never_trashes_even_beyond_max_attempts(self, board: JobBoard) -> None:
        job = board.post("resize", max_attempts=1)
        board.release(claim_one(board), reason="its host is gone")
        board.abandon(claim_one(board), "alice", counted=False)
        assert (state_of(board, job), board.get(job.uuid).record.attempts) == (JobState.UNCLAIMED, 1)

    def test_a_release_keeps_the_attempts_and_never_trashes(self, board: JobBoard) -> None:
        job = board.post("resize", max_attempts=1)
        board.claim(job, "alice")
        board.release(job, reason="its host is gone")
        assert (state_of(board, job), board.get(job.uuid).record.attempts) == (JobState.UNCLAIMED, 1)

    def test_a_restored_job_has_all_its_attempts_again(self, board: JobBoard) -> None:
        job = board.post("resize", max_attempts=2)
        for _ in range(2):
            board.abandon(claim_one(board), "alice")
        assert board.restore(job.uuid).record.attempts == 0
        board.abandon(claim_one(board), "alice")
        assert state_of(board, job) is JobState.UNCLAIMED
        board.abandon(claim_one(board), "alice")
        assert state_of(board, job) is JobState.TRASHED

    def test_a_delayed_return_of_the_last_attempt_is_trashed_at_once(self, board: JobBoard) -> None:
        job = board.post("resize", max_attempts=1)
        board.abandon(claim_one(board), "alice", delay=LONG, reason="broken")
        assert state_of(board, job) is JobState.TRASHED
        assert board.stats().delayed == 0

    def test_without_max_attempts_a_job_comes_back_for_ever(self, board: JobBoard) -> None:
        job = board.post("resize")
        for _ in range(30):
            board.abandon(claim_one(board), "alice")
        assert (state_of(board, job), job.attempts) == (JobState.UNCLAIMED, 30)

    def test_the_key_of_a_job_trashed_for_its_attempts_is_free(self, board: JobBoard) -> None:
        board.post("resize", key="cat.png", max_attempts=1)
        board.abandon(claim_one(board), "alice")
        assert board.post("resize", key="cat.png").record.state is JobState.UNCLAIMED
