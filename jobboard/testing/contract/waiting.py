"""Waiting: it ends when a job can be claimed, or without one when its time is over (promise 5)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from jobboard.board import JobBoard
from jobboard.errors import BoardUnavailable, JobCancelled, JobFailed, NotFound
from jobboard.job import Job, Posting
from jobboard.states import JobState
from jobboard.testing.contract.case import (
    LONG,
    SHORT,
    Case,
    claim_one,
    first_waited_for,
    needs,
)
from jobboard.testing.deadline import DEADLINE, eventually
from jobboard.testing.faults import LossyBackend
from jobboard.testing.harness import Harness


class Waiting:
    """A board on which somebody waits in a thread of its own."""

    def __init__(self, harness: Harness, name: str | None = None) -> None:
        self.board, self._backend = harness.lossy_board(name)
        self._threads = ThreadPoolExecutor(1)

    @property
    def backend(self) -> LossyBackend:
        return self._backend

    def begin(self, **options: Any) -> Future[Job | None]:
        """Begin to wait, and return once the waiting blocks, or is over."""
        self._backend.blocked.clear()
        found = self._threads.submit(first_waited_for, self.board, 60.0, **options)
        eventually(lambda: self._backend.blocked.is_set() or found.done(), every=0.002)
        return found

    def end(self) -> None:
        self.board.close()
        self._threads.shutdown()


class WaitingCases(Case):
    @pytest.fixture
    def waiting(self, harness: Harness) -> Iterator[Waiting]:
        waiting = Waiting(harness)
        yield waiting
        waiting.end()

    def test_a_wait_with_something_to_claim_returns_it_at_once(self, board: JobBoard) -> None:
        jobs = [board.post("resize") for _ in range(3)]
        assert next(iter(board.wait(0))) == jobs[0]
        assert list(board.wait(60)) == jobs

    @pytest.mark.parametrize("timeout", [0, SHORT])
    def test_a_wait_for_nothing_is_empty_after_its_timeout(self, board: JobBoard, timeout: float) -> None:
        board.post("resize", delay=LONG)
        board.claim(board.post("resize"), "alice", LONG)
        began = time.monotonic()
        assert list(board.wait(timeout)) == []
        assert timeout <= time.monotonic() - began < DEADLINE

    def test_a_wait_claims_nothing(self, board: JobBoard) -> None:
        job = board.post("resize")
        assert first_waited_for(board, 5) == job
        assert (board.stats().claimed, job.attempts) == (0, 0)

    def test_a_wait_wakes_on_a_post_of_the_same_client(self, waiting: Waiting) -> None:
        found = waiting.begin()
        job = waiting.board.post("resize")
        assert found.result(DEADLINE) == job

    def test_a_wait_wakes_on_a_post_of_another_client(self, harness: Harness, waiting: Waiting) -> None:
        found = waiting.begin()
        job = harness.board(waiting.board.name).post("resize")
        assert found.result(DEADLINE) == job

    def test_a_wait_wakes_on_an_abandon(self, harness: Harness, waiting: Waiting) -> None:
        other = harness.board(waiting.board.name)
        job = other.post("resize")
        other.claim(job, "alice", LONG)
        found = waiting.begin()
        other.abandon(job, "alice")
        assert found.result(DEADLINE) == job

    def test_a_wait_wakes_on_a_release(self, harness: Harness, waiting: Waiting) -> None:
        other = harness.board(waiting.board.name)
        job = other.post("resize")
        other.claim(job, "alice", LONG)
        found = waiting.begin()
        other.release(job, reason="its host is gone")
        assert found.result(DEADLINE) == job

    def test_a_wait_wakes_on_a_restore(self, harness: Harness, waiting: Waiting) -> None:
        other = harness.board(waiting.board.name)
        job = other.post("resize")
        other.trash(job, by="an operator")
        found = waiting.begin()
        other.restore(job.uuid)
        assert found.result(DEADLINE) == job

    def test_a_wait_wakes_on_a_delayed_job_that_is_to_run_now(self, harness: Harness, waiting: Waiting) -> None:
        other = harness.board(waiting.board.name)
        job = other.post("resize", delay=LONG)
        found = waiting.begin()
        assert other.run_now(job)
        assert found.result(DEADLINE) == job

    @needs(expiry="time")
    def test_a_wait_wakes_on_an_expiry(self, harness: Harness, waiting: Waiting) -> None:
        other = harness.board(waiting.board.name)
        job = other.post("resize")
        other.claim(job, "alice", 0.4)
        other.close()
        assert waiting.begin().result(DEADLINE) == job

    def test_a_wait_wakes_on_a_due_delay(self, harness: Harness, waiting: Waiting) -> None:
        job = harness.board(waiting.board.name).post("resize", delay=0.4)
        assert waiting.begin().result(DEADLINE) == job

    def test_a_wait_wakes_on_a_delay_that_was_posted_meanwhile(self, harness: Harness, waiting: Waiting) -> None:
        found = waiting.begin()
        job = harness.board(waiting.board.name).post("resize", delay=SHORT)
        assert found.result(DEADLINE) == job

    def test_a_wait_wakes_when_a_pause_ends(self, harness: Harness, waiting: Waiting) -> None:
        other = harness.board(waiting.board.name)
        other.pause("resize")
        job = other.post("resize")
        found = waiting.begin()
        other.resume("resize")
        assert found.result(DEADLINE) == job

    def test_a_wait_for_names_leaves_the_others_alone(self, harness: Harness, waiting: Waiting) -> None:
        other = harness.board(waiting.board.name)
        other.post("rotate")
        found = waiting.begin(names=["resize", "crop"])
        other.post("rotate")
        job = other.post("crop")
        assert found.result(DEADLINE) == job

    def test_a_wait_for_names_that_nobody_posts_is_empty(self, board: JobBoard) -> None:
        board.post("rotate")
        assert list(board.wait(SHORT, names=["resize"])) == []
        assert list(board.wait(0, names=[])) == []

    @pytest.mark.parametrize("name", [None, "resize"])
    def test_a_wait_leaves_paused_jobs_out(self, board: JobBoard, name: str | None) -> None:
        board.post("resize")
        board.pause(name)
        assert list(board.wait(SHORT)) == []

    def test_a_wait_ends_when_the_board_is_closed(self, waiting: Waiting) -> None:
        found = waiting.begin()
        waiting.board.close()
        with pytest.raises(BoardUnavailable):
            found.result(DEADLINE)

    def test_every_job_is_found_by_waiters_that_claim(self, harness: Harness) -> None:
        producer = harness.board()
        claimed: list[str] = []

        def work(board: JobBoard, who: str) -> None:
            while len(claimed) < 40:
                for _ in board.wait(SHORT):
                    break
                for job in board.claim_next(who, limit=3, expiry=LONG):
                    board.consume(job, who)
                    claimed.append(job.uuid)

        threads = [threading.Thread(target=work, args=(harness.board(producer.name), f"worker {n}")) for n in range(3)]
        for thread in threads:
            thread.start()
        posted = [producer.post("resize").uuid for _ in range(40)]
        for thread in threads:
            thread.join(60)
        assert sorted(claimed) == sorted(posted)

    def test_an_idle_wait_sends_next_to_nothing_however_many_jobs_others_hold(self, harness: Harness) -> None:
        board, backend = harness.lossy_board()
        board.post_many([Posting("held by another") for _ in range(50)])
        assert len(board.claim_next("alice", limit=50, expiry=LONG)) == 50
        before = sum(backend.calls.values())
        assert list(board.wait(0.5)) == []
        assert sum(backend.calls.values()) - before <= 6

    def test_the_handle_waits_for_the_end_of_its_job(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        assert job.wait(0) is False
        assert job.record.state is JobState.UNCLAIMED
        with ThreadPoolExecutor(1) as threads:
            ended = threads.submit(job.wait, 60)
            other.consume(claim_one(other), "alice", "done")
            assert ended.result(DEADLINE) is True
        assert (job.record.state, job.record.owner, job.record.result) == (JobState.COMPLETE, "alice", "done")
        assert job.wait(0) is True

    def test_a_wait_that_is_over_leaves_a_fresh_record(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        claimed = claim_one(other)
        assert job.wait(0) is False
        assert (job.record.state, job.record.owner, job.record.token) == (JobState.CLAIMED, "alice", claimed.token)
        other.cancel(claimed)
        assert job.wait(SHORT) is False
        assert (job.record.state, job.record.cancel_asked) == (JobState.CLAIMED, True)

    def test_the_handle_learns_of_the_end_without_any_retention(self, harness: Harness) -> None:
        board, backend = harness.lossy_board(retention=0)
        other = harness.board(board.name, retention=0)
        job = board.post("resize")
        with ThreadPoolExecutor(1) as threads:
            ended = threads.submit(job.wait, 60)
            # Only an event tells of this end. A thread that has read the job listens already.
            eventually(lambda: backend.answered["read"])
            other.consume(claim_one(other), "alice", "done")
            assert ended.result(DEADLINE) is True
        assert (job.record.state, job.record.cancel_asked) == (JobState.COMPLETE, False)

    def test_the_handle_learns_that_its_job_was_trashed(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        with ThreadPoolExecutor(1) as threads:
            ended = threads.submit(job.wait, 60)
            other.trash(claim_one(other), "alice", reason="broken")
            assert ended.result(DEADLINE) is False
        assert (job.record.state, job.record.reason) == (JobState.TRASHED, "broken")

    def test_the_handle_learns_that_its_job_was_cancelled(
        self, client: tuple[JobBoard, LossyBackend], other: JobBoard
    ) -> None:
        board, backend = client
        job = board.post("resize")
        with ThreadPoolExecutor(1) as threads:
            ended = threads.submit(job.wait, 60)
            # Only the event is left of a cancelled job, so the wait must begin before the cancel.
            eventually(lambda: backend.answered["read"])
            other.cancel(other.get(job.uuid))
            assert ended.result(DEADLINE) is False
        assert (job.record.state, job.record.cancel_asked) == (JobState.COMPLETE, True)

    def test_the_result_of_a_job_is_returned_when_it_has_ended(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        with pytest.raises(TimeoutError, match=f"UNCLAIMED; see: jobboard why {job.uuid}"):
            job.get_result(0)
        with ThreadPoolExecutor(1) as threads:
            result = threads.submit(job.get_result, 60)
            other.consume(claim_one(other), "alice", {"sizes": [1, 2]})
            assert result.result(DEADLINE) == {"sizes": [1, 2]}
        assert (job.record.state, job.get_result(0)) == (JobState.COMPLETE, {"sizes": [1, 2]})

    def test_a_failed_job_has_no_result_but_says_why(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        other.trash(claim_one(other), "alice", reason="no picture", error="Traceback: ...")
        with pytest.raises(JobFailed, match="no picture") as caught:
            job.get_result(60)
        assert (caught.value.reason, caught.value.last_error) == ("no picture", "Traceback: ...")
        assert job.record.state is JobState.TRASHED

    def test_a_job_that_is_cancelled_meanwhile_has_no_result(
        self, client: tuple[JobBoard, LossyBackend], other: JobBoard
    ) -> None:
        board, backend = client
        job = board.post("resize")
        with ThreadPoolExecutor(1) as threads:
            result = threads.submit(job.get_result, 60)
            eventually(lambda: backend.answered["read"])
            other.cancel(job.uuid)
            with pytest.raises(JobCancelled):
                result.result(DEADLINE)

    def test_a_result_that_was_not_kept_is_not_taken_for_none(self, harness: Harness) -> None:
        board, backend = harness.lossy_board(retention=0)
        other = harness.board(board.name, retention=0)
        job = board.post("resize")
        with ThreadPoolExecutor(1) as threads:
            result = threads.submit(job.get_result, 60)
            eventually(lambda: backend.answered["read"])
            other.consume(claim_one(other), "alice", "done")
            with pytest.raises(NotFound):
                result.result(DEADLINE)
        with pytest.raises(NotFound):
            job.get_result(0)
