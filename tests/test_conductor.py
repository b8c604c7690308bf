"""Conductors in every executor: what becomes of a job, whatever its handler does."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import work
from helpers.conducting import until_begun

from jobboard import (
    Backoff,
    ClaimLost,
    Conductor,
    EventKind,
    Handlers,
    JobBoard,
    JobFailed,
    JobState,
    LogBook,
    RunningJob,
    fetch,
)
from jobboard.backends.address import Address
from jobboard.backends.memory import MemoryBackend
from jobboard.testing import LossyBackend, eventually

EXECUTORS = ("thread", "process", "asyncio")
NewConductor = Callable[..., Conductor]


@pytest.fixture
def board(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JobBoard]:
    """SQLite for threads, memory for the others: what is tested here is above the seam."""
    parameters = getattr(request.node, "callspec", None)
    is_thread = parameters is not None and parameters.params.get("executor") == "thread"
    uri = f"sqlite:///{tmp_path}/jobs.db?synchronous=OFF" if is_thread else f"memory://{uuid.uuid4().hex}"
    with fetch("work", uri) as board:
        yield board


@pytest.fixture
def conduct(board: JobBoard) -> Iterator[NewConductor]:
    """Start conductors, and stop them in the end."""
    started: list[Conductor] = []

    def start(executor: str = "thread", handlers: Handlers = work.handlers, **options: Any) -> Conductor:
        conductor = Conductor("test", board, handlers, executor=executor, **options)
        started.append(conductor)
        conductor.start()
        return conductor

    yield start
    for conductor in started:
        conductor.stop(drain=False)


def state_of(board: JobBoard, job: Any) -> JobState:
    return board.get(job.uuid).record.state


def is_gone(board: JobBoard, job: Any) -> bool:
    return job.uuid not in {left.uuid for left in board.iterjobs(states=list(JobState))}


@pytest.mark.parametrize("executor", EXECUTORS)
class TestEveryExecutor:
    def test_results_are_kept(self, board: JobBoard, conduct: NewConductor, executor: str) -> None:
        conduct(executor, concurrency=3)
        jobs = [board.post("echo", details={"n": n, "raw": b"\xff"}) for n in range(20)]
        later = board.post("echo later", details={"later": True})
        assert all(job.wait(20) for job in [*jobs, later])
        assert [job.result["details"] for job in jobs] == [{"n": n, "raw": b"\xff"} for n in range(20)]
        assert later.result == {"later": True}
        assert [(job.result["token"], job.result["attempts"]) for job in jobs] == [
            (job.record.token, 1) for job in jobs
        ]
        assert (os.getpid() in {job.result["pid"] for job in jobs}) == (executor != "process")

    def test_a_failure_is_tried_again_and_then_trashed(
        self, board: JobBoard, conduct: NewConductor, executor: str
    ) -> None:
        conduct(executor)
        job = board.post("fail")
        eventually(lambda: state_of(board, job) is JobState.TRASHED, 20)
        record = board.get(job.uuid).record
        assert (record.attempts, record.reason) == (3, "ValueError: attempt 3")
        assert "ValueError: attempt 3" in (record.last_error or "")

    @pytest.mark.parametrize("name", ["fail", "fail later"])
    def test_a_traceback_begins_with_the_handler(
        self, board: JobBoard, conduct: NewConductor, executor: str, name: str
    ) -> None:
        conduct(executor)
        with pytest.raises(JobFailed) as caught:
            board.post(name, max_attempts=1).get_result(20)
        heading, frame = (caught.value.last_error or "").splitlines()[:2]
        assert heading == "Traceback (most recent call last):"
        assert frame.startswith(f'  File "{work.__file__}"')

    def test_the_postings_attempts_win(self, board: JobBoard, conduct: NewConductor, executor: str) -> None:
        conduct(executor)
        job = board.post("fail", max_attempts=1)
        eventually(lambda: state_of(board, job) is JobState.TRASHED, 20)
        assert job.attempts == 1

    def test_what_is_broken_is_not_tried_again(self, board: JobBoard, conduct: NewConductor, executor: str) -> None:
        conduct(executor)
        job = board.post("broken")
        eventually(lambda: state_of(board, job) is JobState.TRASHED, 20)
        assert (job.attempts, board.get(job.uuid).record.reason) == (1, "nobody can read this")

    def test_the_second_attempt_may_succeed(self, board: JobBoard, conduct: NewConductor, executor: str) -> None:
        conduct(executor)
        job = board.post("fail once")
        assert job.wait(20)
        assert (job.result, job.attempts) == ("the second time", 2)

    def test_a_job_that_pauses_its_lane_holds_back_those_behind_it(
        self, board: JobBoard, conduct: NewConductor, executor: str
    ) -> None:
        board.limits.set(lane="stripe", running=1)
        first, *others = [board.post("too many requests", lane="stripe") for _ in range(3)]
        alone = board.post("too many requests")
        conductor = conduct(executor)
        eventually(lambda: state_of(board, first) is JobState.DELAYED, 20)
        limit = board.limits.get(lane="stripe")
        assert limit is not None
        assert limit.paused_until is not None
        assert (limit.running, limit.by, limit.reason) == (
            1, conductor.who, "a handler of 'too many requests' asked for it",
        )  # fmt: skip
        assert board.get(first.uuid).record.run_at >= limit.paused_until
        eventually(lambda: state_of(board, alone) is JobState.DELAYED, 20)
        assert [(state_of(board, job), job.attempts) for job in others] == [(JobState.BLOCKED, 0)] * 2
        assert board.post("echo").wait(20)

    def test_a_job_that_runs_again_resumes_at_its_checkpoint_and_has_not_failed(
        self, board: JobBoard, conduct: NewConductor, executor: str
    ) -> None:
        conduct(executor)
        job = board.post("three steps")
        assert job.wait(20)
        assert (job.result, job.attempts) == ([0, 1, 2], 1)

    @pytest.mark.parametrize("name", ["hang", "hang later"])
    def test_a_timeout_is_a_failure(self, board: JobBoard, conduct: NewConductor, executor: str, name: str) -> None:
        if (executor, name) in {("thread", "hang later"), ("process", "hang later")}:
            name = "hang"
        conduct(executor)
        job = board.post(name)
        eventually(lambda: state_of(board, job) is JobState.TRASHED, 20)
        assert board.get(job.uuid).record.reason == "timed out after 0.3 s"
        after = board.post("echo")
        assert after.wait(20), "the slot is free again"

    @pytest.mark.parametrize("name", ["obey", "obey later"])
    def test_a_cancelled_job_ends_and_is_gone(
        self, board: JobBoard, conduct: NewConductor, executor: str, name: str
    ) -> None:
        if name == "obey later" and executor != "asyncio":
            name = "obey"
        conduct(executor)
        job = board.post(name)
        eventually(lambda: state_of(board, job) is JobState.CLAIMED, 20)
        assert board.cancel(job) is False
        eventually(lambda: is_gone(board, job), 20)

    def test_a_broken_claim_is_lost_at_once_and_its_result_dropped(
        self, board: JobBoard, conduct: NewConductor, executor: str
    ) -> None:
        conductor = conduct(executor)
        job = board.post("wait for lost")
        eventually(lambda: state_of(board, job) is JobState.CLAIMED, 20)
        first = board.get(job.uuid).record.token
        board.pause("wait for lost")
        board.release(job, reason="a test")
        after = board.post("echo")
        assert after.wait(20), "the slot is free again"
        assert (state_of(board, job), board.get(job.uuid).record.token) == (JobState.UNCLAIMED, first)
        assert conductor.stop(timeout=10)

    def test_progress_is_seen_in_the_record(self, board: JobBoard, conduct: NewConductor, executor: str) -> None:
        conduct(executor)
        job = board.post("progress")
        seen = {"done": 3, "total": 10, "text": "three of ten"}
        eventually(lambda: board.get(job.uuid).record.progress == seen, 20)
        board.cancel(job)

    def test_a_result_that_cannot_be_stored_sets_the_job_aside_at_once(
        self, board: JobBoard, conduct: NewConductor, executor: str
    ) -> None:
        """Its work is done: to do it again would only lose the same result again."""
        conduct(executor)
        job = board.post("bad result")
        eventually(lambda: state_of(board, job) is JobState.TRASHED, 20)
        assert job.attempts == 1
        assert (
            job.record.reason
            == "its result can't be kept: result.call can't be stored: complex is not supported; convert it to str"
        )

    def test_a_logbook_is_written_from_the_handler(self, board: JobBoard, conduct: NewConductor, executor: str) -> None:
        conduct(executor)
        book = LogBook("steps")
        book.append(attempt=0)
        job = board.post("journal", book=book)
        assert job.wait(20)
        assert [row["attempt"] for row in board.load_book(book.uuid)] == [0, 1]

    def test_it_stops_and_starts_again(self, board: JobBoard, conduct: NewConductor, executor: str) -> None:
        conductor = conduct(executor)
        for _ in range(3):
            job = board.post("echo")
            assert job.wait(20)
            assert [entity.name for entity in board.entities()] == [conductor.who]
            assert conductor.stop(timeout=10)
            assert conductor.stop(timeout=10), "stopping twice is stopping once"
            assert board.entities() == []
            conductor.start()
            conductor.start()

    def test_a_stop_without_drain_gives_jobs_back_with_their_attempt(
        self, board: JobBoard, conduct: NewConductor, executor: str
    ) -> None:
        conductor = conduct(executor)
        job = board.post("wait for lost")
        eventually(lambda: state_of(board, job) is JobState.CLAIMED, 20)
        eventually(lambda: conductor._run._slots.taken, 20)
        # Whether it answers True depends on whether the handler had begun by then.
        conductor.stop(drain=False)
        record = board.get(job.uuid).record
        assert (record.state, record.attempts, record.reason) == (JobState.UNCLAIMED, 0, "its conductor stopped")

    def test_no_thread_and_no_process_is_left(self, board: JobBoard, conduct: NewConductor, executor: str) -> None:
        before = set(threading.enumerate())
        conductor = conduct(executor, concurrency=2)
        assert board.post("echo").wait(20)
        conductor.stop()
        left = {thread for thread in threading.enumerate() if thread.name != "jobboard-events"} - before
        eventually(lambda: not {thread for thread in left if thread.is_alive()}, 10)


class TestRenewal:
    @pytest.mark.parametrize(
        ("executor", "name"), [("thread", "spin"), ("asyncio", "block the loop"), ("process", "hold the interpreter")]
    )
    def test_no_handler_keeps_the_other_claims_from_their_renewal(
        self, board: JobBoard, conduct: NewConductor, executor: str, name: str
    ) -> None:
        conduct(executor, concurrency=2, expiry=4.0)
        selfish, other = board.post(name, details={"seconds": 5}), board.post("sleep", details={"seconds": 4.5})
        assert selfish.wait(30)
        assert other.wait(30)
        for job in (selfish, other):
            kinds = [line.kind for line in job.history]
            assert kinds == [EventKind.POSTED, EventKind.CLAIMED, EventKind.CONSUMED], "never expired, never retaken"

    def test_a_conductor_that_cannot_renew_gives_up_its_claims(self) -> None:
        backend = LossyBackend(MemoryBackend(uuid.uuid4().hex, Address("memory")))
        with JobBoard("work", backend, patience=0.05) as board:
            conductor = Conductor("test", board, work.handlers, expiry=0.4)
            conductor.start()
            job = board.post("wait for lost")
            eventually(lambda: state_of(board, job) is JobState.CLAIMED)
            board.pause("wait for lost")
            backend.lose("extend", "refused", times=10_000)
            eventually(lambda: state_of(board, job) is JobState.UNCLAIMED)
            assert conductor.stop(timeout=10), "the handler saw job.lost, and returned"
            assert state_of(board, job) is JobState.UNCLAIMED, "its result was dropped"


class TestProcesses:
    def test_a_handler_that_kills_its_process_is_trashed_in_the_end(
        self, board: JobBoard, conduct: NewConductor
    ) -> None:
        conduct("process")
        job, after = board.post("die"), board.post("echo")
        assert after.wait(20)
        eventually(lambda: state_of(board, job) is JobState.TRASHED, 20)
        assert (job.attempts, board.get(job.uuid).record.reason) == (2, "its worker process died: exit code 7")

    def test_a_handler_that_ignores_a_cancel_is_killed(self, board: JobBoard, conduct: NewConductor) -> None:
        conduct("process", grace=0.2)
        job = board.post("ignore")
        eventually(lambda: state_of(board, job) is JobState.CLAIMED, 20)
        board.cancel(job)
        eventually(lambda: is_gone(board, job), 20)
        assert board.post("echo").wait(20)

    def test_what_no_worker_can_import_is_refused_at_the_start(self, board: JobBoard) -> None:
        handlers = Handlers()
        handlers.add("local", lambda job: None)
        conductor = Conductor("test", board, handlers, executor="process")
        with pytest.raises(ValueError, match="top level of a module"):
            conductor.start()
        assert conductor.stop()


class TestPoison:
    def test_a_job_whose_attempts_ended_untold_is_not_run_again(self, board: JobBoard, conduct: NewConductor) -> None:
        job = board.post("fail")
        for _ in range(3):
            board.claim(job, "one that dies")
            board.release(job, reason="it is dead")
        conductor = conduct()
        eventually(lambda: state_of(board, job) is JobState.TRASHED)
        assert conductor.wait(0) is False
        assert conductor.stop()
        assert board.get(job.uuid).record.reason == "all 3 attempts are used up; the last: it is dead"

    def test_a_conductor_that_allows_fewer_attempts_keeps_what_the_last_one_left(self, board: JobBoard) -> None:
        """Two versions of a handler run beside each other while one is deployed."""
        job = board.post("fail")
        with Conductor("old", board, _failing(max_attempts=9)):
            eventually(lambda: job.attempts == 3 and job.state is JobState.DELAYED)
        with Conductor("new", board, _failing(max_attempts=2)):
            eventually(lambda: job.state is JobState.TRASHED)
        record = board.get(job.uuid).record
        assert record.reason == "all 2 attempts are used up; the last: RuntimeError: 503"
        assert "Traceback" in record.last_error


def _failing(max_attempts: int) -> Handlers:
    handlers = Handlers()

    @handlers.handler(max_attempts=max_attempts, backoff=Backoff(first=0.2, factor=1))
    def fail(job: RunningJob) -> None:
        raise RuntimeError("503")

    return handlers


class TestWork:
    def test_only_jobs_with_a_handler_are_claimed(self, board: JobBoard, conduct: NewConductor) -> None:
        foreign = board.post("somebody else's", priority="very_high")
        conduct()
        assert board.post("echo").wait(20)
        assert state_of(board, foreign) is JobState.UNCLAIMED

    def test_no_more_jobs_run_at_a_time_than_there_are_slots(self, board: JobBoard) -> None:
        handlers, running, most, lock = Handlers(), 0, 0, threading.Lock()
        gate = threading.Semaphore(0)

        @handlers.handler("count")
        def count(_job: RunningJob) -> None:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            gate.acquire(timeout=10)
            with lock:
                running -= 1

        jobs = [board.post("count") for _ in range(12)]
        conductor = Conductor("test", board, handlers, concurrency=4)
        conductor.start()
        eventually(lambda: running == 4)
        gate.release(12)
        assert all(job.wait(10) for job in jobs)
        assert conductor.stop(timeout=10)
        assert most == 4

    def test_a_stop_lets_what_runs_finish(self, board: JobBoard) -> None:
        handlers, gate = Handlers(), threading.Event()
        handlers.add("gate", lambda job: gate.wait(10))
        conductor = Conductor("test", board, handlers)
        conductor.start()
        job, untouched = board.post("gate"), board.post("gate")
        until_begun(conductor, job)
        stopped: list[bool] = []
        stopper = threading.Thread(target=lambda: stopped.append(conductor.stop(timeout=10)))
        stopper.start()
        eventually(lambda: conductor._run.stopping)
        gate.set()
        stopper.join(10)
        assert (stopped, state_of(board, job), state_of(board, untouched)) == (
            [True], JobState.COMPLETE, JobState.UNCLAIMED,
        )  # fmt: skip
        assert conductor.wait(0)

    def test_an_end_that_could_not_be_sent_is_sent_when_the_store_is_back(self) -> None:
        backend = LossyBackend(MemoryBackend(uuid.uuid4().hex, Address("memory")))
        with JobBoard("work", backend, patience=0.05) as board:
            handlers, gate = Handlers(), threading.Event()
            handlers.add("gate", lambda job: gate.wait(10) and "the result")
            conductor = Conductor("test", board, handlers, expiry=30)
            conductor.start()
            job = board.post("gate")
            eventually(lambda: state_of(board, job) is JobState.CLAIMED)
            backend.lose("consume", "refused", times=3)
            gate.set()
            assert job.wait(20)
            assert (job.result, job.attempts, backend.armed) == ("the result", 1, False)
            assert conductor.stop(timeout=10)


class TestArguments:
    def test_each_bad_argument_is_refused(self, board: JobBoard) -> None:
        make: Callable[..., Conductor] = Conductor
        empty = Handlers()
        for arguments, error in [
            (("", board, work.handlers), ValueError),
            ((3, board, work.handlers), TypeError),
            (("c", "memory://", work.handlers), TypeError),
            (("c", board, {}), TypeError),
            (("c", board, empty), ValueError),
        ]:
            with pytest.raises(error):
                make(*arguments)
        for options, error in [
            ({"concurrency": 0}, ValueError), ({"concurrency": True}, TypeError), ({"expiry": 0}, ValueError),
            ({"executor": "threads"}, ValueError), ({"grace": -1}, ValueError), ({"executor": None}, TypeError),
        ]:  # fmt: skip
            with pytest.raises(error):
                make("c", board, work.handlers, **options)

    def test_an_unknown_executor_names_the_known_ones(self, board: JobBoard) -> None:
        with pytest.raises(ValueError, match="asyncio, process, thread"):
            Conductor("c", board, work.handlers, executor="gevent")

    def test_two_conductors_of_one_name_are_two_owners(self, board: JobBoard) -> None:
        one, two = (Conductor("same", board, work.handlers) for _ in range(2))
        assert one.who != two.who
        job = board.post("echo")
        board.claim(job, one.who)
        with pytest.raises(ClaimLost):
            board.consume(job.uuid, two.who, token=1)
