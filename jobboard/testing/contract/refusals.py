"""Refusals: what the store refuses of one job holds up no other, and is told (promise 13)."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from jobboard.backends.rows import ClaimAnswer, Consumption, Extension, Verdict
from jobboard.board import JobBoard
from jobboard.conductor import Conductor, Handlers, RunningJob
from jobboard.errors import BoardUnavailable, ReplyLost, RequestRefused, TooLarge
from jobboard.job import Job, Posting
from jobboard.operate.status import status
from jobboard.operate.why import why
from jobboard.scheduler import Scheduler
from jobboard.schedules.schedule import Schedule
from jobboard.schedules.triggers import At
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, Case, state_of, uuids_of
from jobboard.testing.deadline import eventually
from jobboard.testing.harness import Harness

_COMPLETE = JobState.COMPLETE
#: How a store may refuse: it says so, it can't tell why, or its reply never comes.
ERRORS = [RequestRefused, BoardUnavailable, ReplyLost]


def _claimed(board: JobBoard, number: int) -> list[Job]:
    board.post_many([Posting("resize") for _ in range(number)])
    return board.claim_next("alice", limit=number, expiry=LONG)


class RefusalCases(Case):
    """The store refuses what is asked of some jobs, and answers everything else."""

    @pytest.mark.parametrize("error", ERRORS)
    def test_refused_ends_hold_up_no_other_of_their_batch(
        self, harness: Harness, error: type[BoardUnavailable]
    ) -> None:
        board, lossy = harness.lossy_board(patience=0.1)
        jobs = _claimed(board, 10)
        refused = [jobs[0], jobs[4], jobs[9]]
        lossy.refuse(uuids_of(refused), error)
        errors = board.consume_many(jobs, "alice")
        assert [job for job, fault in zip(jobs, errors, strict=True) if fault is not None] == refused
        assert all(isinstance(fault, error) for fault in errors if fault is not None)
        lossy.heal()
        assert board.consume_many(refused, "alice") == [None] * 3
        assert board.job_count == 0

    @pytest.mark.parametrize("error", ERRORS)
    def test_refused_extensions_hold_up_no_other_of_their_batch(
        self, harness: Harness, error: type[BoardUnavailable]
    ) -> None:
        board, lossy = harness.lossy_board(patience=0.1)
        jobs = _claimed(board, 6)
        before = [job.record.expires_at for job in jobs]
        lossy.refuse([jobs[1].uuid, jobs[2].uuid, jobs[5].uuid], error, ["extend"])
        with pytest.raises(error):
            board.extend_many(jobs, "alice", 2 * LONG)
        after = [board.get(job.uuid).record.expires_at for job in jobs]
        assert [at for at in range(6) if before[at] == after[at]] == [1, 2, 5]
        lossy.heal()
        assert board.extend_many(jobs, "alice", LONG) == [Verdict.DONE] * 6

    @pytest.mark.parametrize("error", ERRORS)
    def test_a_conductor_ends_what_it_can_and_tells_what_it_cannot(
        self, harness: Harness, error: type[BoardUnavailable]
    ) -> None:
        board, lossy = harness.lossy_board(patience=0.1)
        gate, handlers = threading.Event(), Handlers()
        handlers.add("resize", lambda job: bool(gate.wait(60)))
        refused = board.post_many([Posting("resize") for _ in range(3)])
        conductor = Conductor("worker", board, handlers, concurrency=3)
        conductor.start()
        try:
            eventually(lambda: board.stats().claimed == 3, within=30)
            lossy.refuse(uuids_of(refused), error)
            gate.set()
            others = board.post_many([Posting("resize") for _ in range(40)])
            eventually(lambda: all(state_of(board, job) is _COMPLETE for job in others), within=60)
            eventually(lambda: set(conductor.unsent) == set(uuids_of(refused)), within=60)
            eventually(lambda: all(job.uuid in _found(board) for job in refused), within=60)
            assert all("unsent" in [each.kind for each in why(board, board.get(job.uuid))] for job in refused)
            assert conductor.healthy
            lossy.heal()
            eventually(lambda: all(state_of(board, job) is _COMPLETE for job in refused), within=60)
            eventually(lambda: conductor.unsent == [], within=30)
        finally:
            gate.set()
            conductor.stop(drain=False)
        assert {job.attempts for job in (*refused, *others)} == {1}

    @pytest.mark.parametrize("error", ERRORS)
    def test_a_renewal_that_is_refused_loses_its_own_claim_alone(
        self, harness: Harness, error: type[BoardUnavailable]
    ) -> None:
        board, lossy = harness.lossy_board(patience=0.1)
        gate, handlers, lost = threading.Event(), Handlers(), list[str]()

        def resize(job: RunningJob) -> None:
            eventually(lambda: gate.is_set() or job.lost, within=60)
            if job.lost:
                lost.append(job.uuid)

        handlers.add("resize", resize)
        jobs = board.post_many([Posting("resize") for _ in range(5)])
        refused = [jobs[0].uuid, jobs[2].uuid, jobs[3].uuid]
        conductor = Conductor("worker", board, handlers, concurrency=5, expiry=3.0)
        conductor.start()
        try:
            eventually(lambda: board.stats().claimed == 5, within=30)
            board.pause()
            lossy.refuse(refused, error, ["extend"])
            eventually(lambda: set(lost) == set(refused), within=60)
            # The others would have been lost as well, since all have been claimed at once.
            gate.set()
            eventually(lambda: all(state_of(board, job) is _COMPLETE for job in (jobs[1], jobs[4])), within=30)
        finally:
            gate.set()
            conductor.stop(drain=False)
        assert set(lost) == set(refused)
        assert [jobs[1].attempts, jobs[4].attempts] == [1, 1]

    def test_progress_that_is_too_large_costs_no_claim(self, harness: Harness) -> None:
        board, lossy = harness.lossy_board()
        extend, handlers = lossy.inner.jobs.extend, Handlers()

        def resize(job: RunningJob) -> bool:
            job.progress(1, 2, "x" * job.details["size"])
            return eventually(lambda: job.lost or len(renewed) > 3, within=60) and not job.lost

        def limited(extensions: Sequence[Extension]) -> list[ClaimAnswer]:
            if any(len(each.progress or b"") > 300 for each in extensions):
                raise TooLarge("no request of this size")
            renewed.extend([time.monotonic()] * (len(extensions) == 3))
            return extend(extensions)

        renewed: list[float] = []
        lossy.inner.jobs.extend = limited  # type: ignore[method-assign,assignment]
        handlers.add("resize", resize)
        jobs = board.post_many([Posting("resize", details={"size": size}) for size in (400, 0, 10)])
        conductor = Conductor("worker", board, handlers, concurrency=3, expiry=3.0)
        conductor.start()
        try:
            eventually(lambda: board.job_count == 0, within=60)
        finally:
            conductor.stop(drain=False)
        assert [job.result for job in jobs] == [True] * 3

    @pytest.mark.parametrize("error", ERRORS)
    def test_a_step_that_is_refused_holds_up_no_other_schedule(
        self, harness: Harness, error: type[BoardUnavailable], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # After this time it tries a refused step again.
        monkeypatch.setattr("jobboard.scheduler._MAX_SLEEP", 0.5)
        board, lossy = harness.lossy_board(patience=0.1)
        soon = datetime.now(UTC) + timedelta(seconds=0.5)
        for number in range(6):
            board.schedules.add(Schedule(f"number-{number}", At(soon), f"name-{number}"))
        lossy.refuse(["number-0", "number-2", "number-3"], error, ["schedules.step"])
        scheduler = Scheduler(board)
        scheduler.start()
        try:
            eventually(lambda: set(board.stats().names) == {"name-1", "name-4", "name-5"}, within=60)
            board.schedules.add(Schedule("later", At(datetime.now(UTC) + timedelta(seconds=0.5)), "later"))
            eventually(lambda: "later" in board.stats().names, within=30)
            lossy.heal()
            eventually(lambda: board.job_count == 7, within=60)
        finally:
            scheduler.stop(30)
        assert {name: numbers.unclaimed for name, numbers in board.stats().names.items()} == dict.fromkeys(
            ["later", *(f"name-{number}" for number in range(6))], 1
        )

    def test_a_result_that_is_too_large_fails_its_own_job_alone(self, harness: Harness) -> None:
        board, lossy = harness.lossy_board()
        consume, handlers = lossy.inner.jobs.consume, Handlers()
        handlers.add("resize", lambda job: job.details["size"] * "x")

        def limited(ends: Sequence[Consumption]) -> list[ClaimAnswer]:
            if any(len(end.result or b"") > 1000 for end in ends):
                raise TooLarge("no request of this size")
            return consume(ends)

        lossy.inner.jobs.consume = limited  # type: ignore[method-assign]
        postings = [Posting("resize", details={"size": size}) for size in (1, 2000, 2, 3000, 3, 4000, 4)]
        jobs = board.post_many(postings)
        conductor = Conductor("worker", board, handlers, concurrency=4)
        conductor.start()
        try:
            eventually(lambda: board.job_count == 0 and board.stats().trashed == 3, within=60)
        finally:
            conductor.stop(drain=False)
        assert [state_of(board, job) for job in jobs] == [_COMPLETE, JobState.TRASHED] * 3 + [_COMPLETE]
        assert "its result can't be kept" in (board.get(jobs[1].uuid).record.reason or "")


def _found(board: JobBoard) -> str:
    return " ".join(finding["text"] for finding in status(board)["findings"] if finding["kind"] == "unsent")
