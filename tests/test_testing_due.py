"""The kit for users' own tests: handlers run in the thread of the test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from jobboard import (
    AsyncRunningJob,
    Backoff,
    Broken,
    Handlers,
    InvalidPosting,
    Job,
    JobBoard,
    JobState,
    NotFound,
    RunAgain,
    RunningJob,
    backend,
)
from jobboard.board import client_of
from jobboard.testing import clock_of, memory_board, posted, run_due

handlers = Handlers()


@handlers.handler("add")
def add(job: RunningJob) -> int:
    return sum(job.details["numbers"])


@handlers.handler("add later")
async def add_later(job: RunningJob) -> int:
    await asyncio.sleep(0)
    return sum(job.details["numbers"])


@handlers.handler("fail", max_attempts=2, backoff=Backoff(first=60, jitter=0))
def fail(job: RunningJob) -> None:
    raise LookupError("no such order")


@handlers.handler("fail later")
async def fail_later(job: RunningJob) -> None:
    raise LookupError("no such order")


@handlers.handler("break")
def break_off(job: RunningJob) -> None:
    raise Broken("no attempt can help")


@handlers.handler("twice")
def twice(job: RunningJob) -> str:
    if job.checkpoint is None:
        job.checkpoint_state("seen")
        raise RunAgain(after=60)
    return "seen twice"


@handlers.handler("chain")
def chain(job: RunningJob) -> None:
    if job.details["left"]:
        job.board.post("chain", details={"left": job.details["left"] - 1})


@handlers.handler("report")
def report(job: RunningJob) -> object:
    job.progress(1, 2)
    job.board.cancel(job.uuid)
    job.progress(2, 2)
    if job.cancelled:
        raise RuntimeError("stopped in the middle")
    return None


@handlers.handler("odd")
def odd(job: RunningJob) -> object:
    return object()


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with memory_board() as board:
        yield board


@pytest.mark.parametrize("name", ["add", "add later"])
def test_what_is_due_runs_in_this_thread_in_claim_order(board: JobBoard, name: str) -> None:
    first = board.post(name, details={"numbers": [1, 2]})
    urgent = board.post(name, details={"numbers": [3]}, priority="high")
    assert run_due(board, handlers) == [urgent, first]
    assert (first.state, first.result, urgent.result) == (JobState.COMPLETE, 3, 3)
    assert run_due(board, handlers) == []


def test_the_handler_runs_in_the_thread_of_the_test(board: JobBoard) -> None:
    seen = []
    mine = Handlers()
    mine.add("look", lambda job: seen.append(threading.current_thread()))
    board.post("look")
    run_due(board, mine)
    assert seen == [threading.current_thread()]


def test_an_async_handler_runs_from_within_a_loop_too(board: JobBoard) -> None:
    async def test() -> list[Job]:
        board.post("add later", details={"numbers": [1, 2]})
        return run_due(board, handlers)

    (job,) = asyncio.run(test())
    assert job.result == 3


@pytest.mark.parametrize("name", ["fail", "fail later"])
def test_what_a_handler_raises_is_raised_and_the_job_waits_for_its_retry(board: JobBoard, name: str) -> None:
    job, behind = board.post(name), board.post("add", details={"numbers": []})
    with pytest.raises(LookupError, match="no such order"):
        run_due(board, handlers)
    assert (job.state, job.attempts) == (JobState.DELAYED, 1)
    assert "no such order" in (job.last_error or "")
    assert behind.state is JobState.UNCLAIMED
    assert run_due(board, handlers) == [behind]


def test_a_job_whose_attempts_are_used_up_is_in_the_trash(board: JobBoard) -> None:
    job = board.post("fail")
    for _ in range(2):
        with pytest.raises(LookupError):
            run_due(board, handlers)
        clock_of(board).move(61)
    assert job.state is JobState.TRASHED


def test_a_broken_job_is_raised_and_in_the_trash(board: JobBoard) -> None:
    job = board.post("break")
    with pytest.raises(Broken):
        run_due(board, handlers)
    assert (job.state, job.record.reason) == (JobState.TRASHED, "no attempt can help")


def test_a_result_that_cannot_be_stored_is_raised(board: JobBoard) -> None:
    job = board.post("odd")
    with pytest.raises(InvalidPosting, match="result"):
        run_due(board, handlers)
    assert job.state is JobState.TRASHED


def test_a_result_that_is_too_large_is_raised() -> None:
    large = Handlers()
    large.add("large", lambda job: "x" * 1000)
    with memory_board(largest_details=500) as board:
        job = board.post("large")
        with pytest.raises(InvalidPosting, match="result"):
            run_due(board, large)
        assert job.state is JobState.TRASHED


def test_a_job_that_runs_again_is_no_failure(board: JobBoard) -> None:
    job = board.post("twice")
    assert run_due(board, handlers) == [job]
    assert job.state is JobState.DELAYED
    clock_of(board).move(60)
    run_due(board, handlers)
    assert (job.result, job.attempts) == ("seen twice", 1)


def test_a_cancel_that_was_asked_for_is_no_failure(board: JobBoard) -> None:
    job = board.post("report")
    run_due(board, handlers)
    with pytest.raises(NotFound):
        job.state  # noqa: B018


def test_jobs_that_handlers_post_are_run_up_to_a_limit(board: JobBoard) -> None:
    board.post("chain", details={"left": 2})
    assert len(run_due(board, handlers, limit=3)) == 3
    board.post("chain", details={"left": 2})
    with pytest.raises(AssertionError, match="2 jobs ran, and more"):
        run_due(board, handlers, limit=2)


def test_only_jobs_of_the_given_names_run(board: JobBoard) -> None:
    board.post("add", details={"numbers": []})
    board.post("nobody's")
    assert run_due(board, handlers, names=["add later", "nobody's"]) == []
    assert run_due(board, handlers, names=[]) == []
    assert len(run_due(board, handlers)) == 1


def test_it_runs_on_a_store_that_others_share(tmp_path: Path) -> None:
    with backend("kit", f"sqlite:///{tmp_path}/jobs.db") as board:
        job = board.post("add", details={"numbers": [1]})
        assert run_due(board, handlers) == [job]
        assert posted(board, "add", details={"numbers": (1,)}).result == 1


@dataclass
class Mail:
    to: str


def test_a_handler_gets_details_of_its_type(board: JobBoard) -> None:
    typed = Handlers()
    sent: list[Mail] = []

    @typed.handler("mail")
    def mail(mail: Mail) -> None:
        sent.append(mail)

    board.post("mail", details={"to": "ann"})
    run_due(board, typed)
    assert sent == [Mail("ann")]


@pytest.mark.parametrize("commits", [True, False])
def test_a_handler_may_complete_its_job_in_a_transaction(tmp_path: Path, commits: bool) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/jobs.db")
    completing = Handlers()

    @completing.handler("pay")
    def pay(job: RunningJob) -> None:
        with engine.connect() as connection:
            job.complete("paid", connection=connection)
            if commits:
                connection.commit()

    with backend("kit", f"sqlite:///{tmp_path}/jobs.db") as board:
        job = board.post("pay")
        if commits:
            run_due(board, completing)
            assert job.result == "paid"
        else:
            with pytest.raises(RuntimeError, match="did not commit"):
                run_due(board, completing)
            assert job.state is JobState.DELAYED
    engine.dispose()


def test_a_handler_may_complete_its_job_in_memory(board: JobBoard) -> None:
    completing = Handlers()
    completing.add("pay", lambda job: job.complete("paid", connection=object()))
    job = board.post("pay")
    run_due(board, completing)
    assert job.result == "paid"


def test_an_async_handler_awaits_its_calls(board: JobBoard) -> None:
    awaiting = Handlers()

    @awaiting.handler("first")
    async def first(job: AsyncRunningJob) -> int:
        await job.progress(1, 2)
        await job.checkpoint_state("seen")
        await job.board.post("second")
        return 1

    @awaiting.handler("second")
    async def second(job: AsyncRunningJob) -> None:
        await job.complete("done")

    job = board.post("first")
    assert [ran.name for ran in run_due(board, awaiting)] == ["first", "second"]
    assert (job.result, job.record.checkpoint, job.record.progress) == (1, "seen", {"done": 1, "total": 2})
    assert posted(board, "second").result == "done"


def test_sleepers_that_wake_by_themselves_run_as_well(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock goes on: one may wake after nothing could be claimed, and before its moment is read."""
    sleeping = Handlers()

    @sleeping.handler("sleep")
    def sleep(job: RunningJob) -> str:
        job.sleep(3600)
        return "awake"

    jobs = [board.post("sleep") for _ in range(3)]
    reads = client_of(board).backend.jobs
    read = reads.read

    def late(uuids: Sequence[str]) -> Any:
        clock_of(board).move(3600)
        return read(uuids)

    monkeypatch.setattr(reads, "read", late)
    run_due(board, sleeping)
    monkeypatch.undo()
    assert [job.result for job in jobs] == ["awake"] * 3
