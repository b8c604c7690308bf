"""``job.complete()``: a handler ends its job itself, in a transaction of its own if it has one."""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from helpers import completing
from helpers.conducting import conducting, state_of

from jobboard import EventKind, Handlers, Job, JobBoard, JobState, Posting, RunningJob, fetch
from jobboard.aio import AsyncJobBoard
from jobboard.conductor.execution import Execution
from jobboard.errors import NotSupported
from jobboard.testing import eventually, run_due

EXECUTORS = ["thread", "asyncio", "process"]


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "jobs.db")
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE effects (uuid TEXT, attempt INTEGER)")
    return path


@pytest.fixture
def board(path: str) -> Iterator[JobBoard]:
    with fetch("work", f"sqlite:///{path}") as board:
        yield board


@pytest.fixture
def memory() -> Iterator[JobBoard]:
    with fetch("work", f"memory://{uuid.uuid4().hex}") as board:
        yield board


def effects_of(path: str, job: Job) -> list[int]:
    """Return the attempts whose effect was committed."""
    with closing(sqlite3.connect(path)) as file:
        return [attempt for (attempt,) in file.execute("SELECT attempt FROM effects WHERE uuid = ?", [job.uuid])]


def times_consumed(job: Job) -> int:
    return [line.kind for line in job.history].count(EventKind.CONSUMED)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_records_are_kept_for_as_long_as_the_handler_says(board: JobBoard, path: str, executor: str) -> None:
    handlers = Handlers()
    posted = {
        "kept": completing.echo,
        "gone": completing.echo,
        "gone at once": completing.commit,
        "then": completing.echo,
    }
    for name, function in posted.items():
        follow = Posting("kept") if name == "then" else None
        handlers.add(name, function, retention=None if name == "kept" else 0, on_complete=follow)
    with conducting(board, handlers, executor, concurrency=2):
        for name in posted:
            board.post(name, {"path": path})
        eventually(lambda: board.job_count == 0, 60)
    assert [job.name for job in board.iterjobs(states=set(JobState))] == ["kept", "kept"]


@pytest.mark.parametrize("retention", [-1, "1", math.nan])
def test_a_retention_that_is_none_is_refused(retention: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="retention"):
        Handlers().handler("a", retention=retention)(completing.echo)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_effect_and_the_end_of_a_job_are_one(board: JobBoard, path: str, executor: str) -> None:
    names = [
        "commit", "raise before the commit", "raise after the commit", "forget the commit", "come late",
    ]  # fmt: skip
    with conducting(board, completing.handlers, executor, concurrency=2):
        jobs = {name: board.post(name, details={"path": path}) for name in names}
        eventually(lambda: board.job_count == 0, 60)
    records = {name: board.get(job.uuid).record for name, job in jobs.items()}
    assert {name: effects_of(path, job) for name, job in jobs.items()} == {
        "commit": [1],
        "raise before the commit": [2],
        "raise after the commit": [1],
        "forget the commit": [],
        "come late": [2],
    }
    lost = records.pop("forget the commit")
    assert (lost.state, lost.attempts) == (JobState.TRASHED, 2)
    assert lost.last_error == "its handler completed it in a transaction that did not commit"
    assert {record.state for record in records.values()} == {JobState.COMPLETE}
    assert {times_consumed(jobs[name]) for name in records} == {1}
    assert records["commit"].result == records["raise after the commit"].result == {"by": "complete"}


@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_end_that_is_refused_leaves_the_job_to_its_handler(board: JobBoard, path: str, executor: str) -> None:
    with conducting(board, completing.handlers, executor):
        job = board.post("be refused", details={"path": path})
        eventually(lambda: board.job_count == 0, 60)
    assert (state_of(board, job), job.attempts) == (JobState.COMPLETE, 1), job.last_error
    assert job.result == "what the handler returns"


def test_an_async_handler_completes_its_job(board: JobBoard, path: str) -> None:
    with conducting(board, completing.handlers, "asyncio"):
        job = board.post("commit later", details={"path": path})
        assert job.wait(30)
    assert (effects_of(path, job), job.result) == ([1], {"by": "complete"})


@pytest.mark.parametrize("executor", EXECUTORS)
def test_without_a_transaction_it_is_complete_at_once(memory: JobBoard, executor: str) -> None:
    with conducting(memory, completing.handlers, executor):
        job = memory.post("at once")
        assert job.wait(30)
    assert (job.result, times_consumed(job), memory.audit()) == ("at once", 1, [])


def test_a_handler_goes_on_after_the_end_of_its_job(memory: JobBoard) -> None:
    """The renewal finds the claim gone; that is no loss, and its slot is not taken from it."""
    told: list[bool] = []
    may_return = threading.Event()
    handlers = Handlers()

    @handlers.handler("go on")
    def go_on(job: RunningJob) -> None:
        job.complete("done")
        # It is sent with a renewal.
        job.progress(1)
        execution = Execution.current()
        assert execution is not None
        eventually(lambda: execution.held_until == math.inf, 30)
        told.append(job.lost)
        may_return.wait(30)

    with conducting(memory, handlers) as conductor:
        job = memory.post("go on")
        eventually(lambda: told, 60)
        assert conductor._run._slots.taken == 1
        may_return.set()
        assert conductor.stop()
    assert (told, state_of(memory, job), job.attempts) == ([False], JobState.COMPLETE, 1)


def test_a_handler_that_times_out_leaves_the_end_to_its_transaction(board: JobBoard, path: str) -> None:
    handlers = Handlers()

    @handlers.handler("overrun", timeout=3600)
    def overrun(job: RunningJob) -> None:
        with completing.transaction(job) as connection:
            job.complete("late", connection=connection)
            execution = Execution.current()
            assert execution is not None
            execution.deadline = time.monotonic()
            eventually(lambda: job.lost, 30)

    with conducting(board, handlers, grace=60):
        job = board.post("overrun", details={"path": path})
        assert job.wait(60)
    assert (effects_of(path, job), job.result, job.attempts) == ([1], "late", 1)


def test_an_end_by_a_later_owner_is_no_end_of_this_claim(
    board: JobBoard, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    handlers = Handlers()

    @handlers.handler("be overtaken")
    def be_overtaken(job: RunningJob) -> None:
        completing.forget_the_commit(job)
        board.release(job.uuid, reason="a test")
        again = board.get(job.uuid)
        board.claim(again, "another")
        board.consume(again, "another")

    with caplog.at_level(logging.INFO, "jobboard"), conducting(board, handlers):
        job = board.post("be overtaken", details={"path": path})
        eventually(lambda: "attempt 1 lost" in caplog.text, 60)
    assert job.owner == "another"


def test_the_test_kit_completes_as_a_conductor_does(board: JobBoard, path: str) -> None:
    posted = [board.post(name, details={"path": path}) for name in ("commit", "commit later", "at once")]
    assert run_due(board, completing.handlers) == posted
    assert [state_of(board, job) for job in posted] == [JobState.COMPLETE] * 3
    assert [effects_of(path, job) for job in posted] == [[1], [1], []]


def test_other_stores_say_that_they_have_no_transactions(memory: JobBoard) -> None:
    handlers = Handlers(max_attempts=1)
    handlers.add("commit", lambda job: job.complete(connection=object()))
    memory.post("commit")
    with pytest.raises(NotSupported):
        run_due(memory, handlers)


def test_a_board_for_asyncio_is_refused(board: JobBoard, path: str) -> None:
    handlers = Handlers(max_attempts=1)

    @handlers.handler("commit")
    def commit(job: RunningJob) -> None:
        with completing.transaction(job) as connection:
            job.complete(connection=connection, board=AsyncJobBoard(board))  # type: ignore[arg-type]

    board.post("commit", details={"path": path})
    with pytest.raises(TypeError, match="board must be a JobBoard, not AsyncJobBoard"):
        run_due(board, handlers)


def test_a_worker_process_says_that_it_needs_a_board(path: str, board: JobBoard) -> None:
    with conducting(board, needy, "process"):
        job = board.post("needs a board")
        eventually(lambda: state_of(board, job) is JobState.TRASHED, 30)
    assert "give it as board=" in (job.last_error or "")


needy = Handlers(max_attempts=1)


@needy.handler("needs a board")
def needs_a_board(job: RunningJob) -> None:
    job.complete(connection=object())
