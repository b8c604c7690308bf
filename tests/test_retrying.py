"""Errors that no attempt mends, an end of all attempts, and a backoff that looks at the error."""

from __future__ import annotations

import logging
import math
from datetime import timedelta
from typing import Any

import pytest
from helpers import retrying
from helpers.conducting import conducting
from helpers.memory_board import board
from helpers.retrying import DAY

from jobboard import Backoff, EventKind, Handlers, Job, JobBoard, JobState, Posting, RunningJob
from jobboard.operate.trash import kind_of_reason
from jobboard.testing import clock_of, eventually, memory_board, posted, run_due

__all__ = ["board"]

EXECUTORS = ["thread", "process", "asyncio"]
NAMES = ["plain", "later", "batch", "each"]


def delay_of(job: Job) -> float:
    """The seconds for which a job that has failed waits."""
    record = job.board.get(job.uuid).record
    assert record.run_at is not None
    return (record.run_at - record.last_modified).total_seconds()


def until_failed(job: Job) -> None:
    eventually(lambda: any(line.kind in (EventKind.ABANDONED, EventKind.TRASHED) for line in job.history), 30)


@pytest.mark.parametrize("executor", EXECUTORS)
class TestOnEachExecutor:
    def test_what_no_attempt_mends_trashes_at_once(self, board: JobBoard, executor: str) -> None:
        with conducting(board, retrying.handlers, executor):
            self.check_trashed([board.post(name, {"kind": "missing"}) for name in NAMES], "KeyError: 'no such row'")

    def test_so_does_what_the_backoff_says_is_broken(self, board: JobBoard, executor: str) -> None:
        with conducting(board, retrying.handlers, executor):
            jobs = [board.post(name, {"kind": "refused"}) for name in NAMES]
            self.check_trashed(jobs, "ConnectionRefusedError: by the other side")

    def check_trashed(self, jobs: list[Job], reason: str) -> None:
        for job in jobs:
            eventually(lambda job=job: job.state is JobState.TRASHED, 30)  # type: ignore[misc]
            record = job.board.get(job.uuid).record
            assert (record.attempts, record.reason) == (1, reason)
            assert f"raise {reason.partition(':')[0]}" in (record.last_error or "")

    def test_the_error_says_how_long_the_job_waits(self, board: JobBoard, executor: str) -> None:
        with conducting(board, retrying.handlers, executor):
            jobs = [board.post(name, {"kind": "busy", "what": "by attempt"}) for name in NAMES]
            for job in jobs:
                until_failed(job)
                assert delay_of(job) == pytest.approx(DAY, abs=1)
                board.run_now(job)
                eventually(lambda job=job: job.attempts == 2 and job.state is JobState.DELAYED, 30)  # type: ignore[misc]
                assert delay_of(job) == pytest.approx(2 * DAY, abs=1)

    @pytest.mark.parametrize("wrong", ["soon", -1, None, 1e300])
    def test_a_backoff_that_gives_no_delay_loses_no_job(self, board: JobBoard, executor: str, wrong: Any) -> None:
        with conducting(board, retrying.handlers, executor):
            jobs = [board.post(name, {"kind": "busy", "what": wrong}) for name in NAMES]
            for job in jobs:
                until_failed(job)
                assert delay_of(job) == pytest.approx(1, abs=0.2)
                assert board.get(job.uuid).record.reason == f"Busy: busy: {wrong!r}"

    def test_nor_does_one_that_raises(self, board: JobBoard, executor: str) -> None:
        with conducting(board, retrying.handlers, executor):
            job = board.post("plain", {"kind": "luck"})
            until_failed(job)
            assert delay_of(job) == pytest.approx(1, abs=0.2)

    def test_what_no_error_of_the_handler_tells_waits_as_by_default(self, board: JobBoard, executor: str) -> None:
        with conducting(board, retrying.handlers, executor):
            jobs = [board.post("slow"), board.post("plain", {"kind": "exit"})]
            for job in jobs:
                until_failed(job)
                assert delay_of(job) == pytest.approx(1, abs=0.2)

    def test_a_job_that_asks_to_run_again_is_not_broken(self, board: JobBoard, executor: str) -> None:
        with conducting(board, retrying.handlers, executor):
            job = board.post("plain", {"kind": "again"})
            until_failed(job)
            assert (job.state, job.attempts) == (JobState.DELAYED, 0)


def test_each_job_of_a_batch_has_its_own_end(board: JobBoard) -> None:
    kinds = [("missing", None), ("busy", 60), ("busy", timedelta(days=1).total_seconds()), ("luck", None)]
    jobs = [board.post("each", {"kind": kind, "what": what}) for kind, what in kinds]
    with conducting(board, retrying.handlers, concurrency=1):
        for job in jobs:
            until_failed(job)
    assert [job.state for job in jobs] == [JobState.TRASHED, *[JobState.DELAYED] * 3]
    assert [round(delay_of(job)) for job in jobs[1:]] == [60, 86_400, 1]


def test_a_job_that_fails_for_a_batch_is_judged_by_its_own_attempt(board: JobBoard) -> None:
    seen: list[int] = []

    def note(attempt: int, error: Exception) -> float:
        seen.append(attempt)
        return 0.0

    handlers = Handlers(backoff=note)

    @handlers.batch("index", wait=0)
    def index(jobs: list[Any]) -> None:
        if len(seen) < 3:
            raise OSError("away")

    board.post("index")
    with pytest.raises(RuntimeError, match="away"):
        run_due(board, handlers)
    board.post("index")
    with pytest.raises(RuntimeError, match="away"):
        run_due(board, handlers)
    assert seen == [1, 2, 1]


@pytest.mark.parametrize("backoff", [lambda attempt, error: 1 / 0, lambda attempt, error: timedelta(seconds=-1)])
def test_the_log_says_that_a_backoff_failed(backoff: Any, caplog: pytest.LogCaptureFixture) -> None:
    handlers = Handlers(backoff=backoff)

    @handlers.handler
    def work(job: RunningJob) -> None:
        raise OSError("away")

    with memory_board() as board, caplog.at_level(logging.WARNING), pytest.raises(OSError, match="away"):
        job = work.post(board, {"secret": "hunter2"})
        run_due(board, handlers)
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"the backoff of job {job.uuid} gives no delay, and the default one is taken: ")
    assert "hunter2" not in line


class TestGivingUp:
    HOUR = 3600.0

    def handlers(self, **options: Any) -> Handlers:
        handlers = Handlers(max_attempts=100, backoff=Backoff(first=0, most=0), **options)

        @handlers.handler(on_trashed=Posting("told"))
        def call(job: RunningJob) -> None:
            raise OSError("the provider is away")

        return handlers

    def fail(self, board: JobBoard, handlers: Handlers) -> None:
        with pytest.raises(OSError, match="away"):
            run_due(board, handlers, names={"call"})

    def test_a_failure_so_long_after_the_post_is_the_last(self) -> None:
        handlers = self.handlers(give_up_after=timedelta(hours=1))
        with memory_board() as board:
            job = board.post("call")
            clock = clock_of(board)
            for _ in range(3):
                clock.move(self.HOUR / 4)
                self.fail(board, handlers)
                assert job.state is JobState.UNCLAIMED
            clock.move(self.HOUR)
            self.fail(board, handlers)
            record = board.get(job.uuid).record
            assert (record.state, record.attempts) == (JobState.TRASHED, 4)
            assert record.reason == "given up 6300 s after its post; the last: OSError: the provider is away"
            assert kind_of_reason(record.reason) == "OSError: the provider is away"
            assert record.last_error is not None
            posted(board, "told")

    def test_a_run_that_is_late_and_succeeds_is_none(self) -> None:
        handlers = Handlers(give_up_after=1)
        handlers.add("call", lambda job: "done")
        with memory_board() as board:
            job = board.post("call")
            clock_of(board).move(self.HOUR)
            run_due(board, handlers)
            assert job.result == "done"

    def test_a_delay_of_the_post_counts(self) -> None:
        with memory_board() as board:
            job = board.post("call", delay=2 * self.HOUR)
            clock_of(board).move(2 * self.HOUR)
            self.fail(board, self.handlers(give_up_after=self.HOUR))
            assert job.state is JobState.TRASHED

    def test_without_it_only_attempts_count(self) -> None:
        handlers = self.handlers(give_up_after=math.inf)
        with memory_board() as board:
            job = board.post("call", max_attempts=2)
            for state in (JobState.UNCLAIMED, JobState.TRASHED):
                clock_of(board).move(100 * self.HOUR)
                self.fail(board, handlers)
                assert job.state is state
            assert board.get(job.uuid).record.reason == "OSError: the provider is away"

    @pytest.mark.parametrize("executor", EXECUTORS)
    def test_conductors_give_up_too_also_of_a_timeout(self, board: JobBoard, executor: str) -> None:
        handlers = Handlers(give_up_after=0.1)
        handlers.add("slow", retrying.slow, timeout=0.2)
        with conducting(board, handlers, executor):
            job = board.post("slow")
            eventually(lambda: job.state is JobState.TRASHED, 30)
        reason = board.get(job.uuid).record.reason or ""
        assert reason.startswith("given up 0 s after its post; the last: timed out after 0.2 s")


def test_a_backoff_that_no_worker_can_import_is_refused_at_the_start(board: JobBoard) -> None:
    handlers = Handlers()
    handlers.add("plain", retrying.plain, backoff=lambda attempt, error: 1)
    with (
        pytest.raises(ValueError, match=r"a backoff, or broken_on, of the handler for 'plain' can't run in a process"),
        conducting(board, handlers, "process"),
    ):
        pass
