"""What other threads raise in those of a conductor, too late for a handler, ends none of its work."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from helpers import late_exceptions
from helpers.conducting import conducting
from helpers.late_exceptions import raise_in, threads
from helpers.memory_board import board

from jobboard import Conductor, Job, JobBoard, Posting
from jobboard.testing import eventually

__all__ = ["board"]

#: Where a late exception can come, on each executor.
THREADS = {
    "thread": ("jobboard-slot",),
    "process": ("jobboard-slot", "jobboard-claimer"),
    "asyncio": ("jobboard-slot", "jobboard-asyncio"),
}


def idle(conductor: Conductor) -> bool:
    run: Any = conductor._run
    return run._slots.taken == 0 and not run._renewer.held()


@pytest.mark.parametrize("executor", THREADS)
@pytest.mark.parametrize("concurrency", [1, 4])
def test_an_idle_conductor_works_on(board: JobBoard, executor: str, concurrency: int) -> None:
    names = ["pid", "pid later"]
    with conducting(board, late_exceptions.handlers, executor, concurrency=concurrency) as conductor:
        for _ in range(3):
            jobs = board.post_many([Posting(name) for name in names * concurrency])
            assert all(job.wait(30) for job in jobs)
            eventually(lambda: idle(conductor))
            for thread in threads(*THREADS[executor]):
                raise_in(thread.ident)
        for name in names * 3:
            assert board.post(name).wait(30)
        assert conductor.healthy
        if executor != "process":
            late_exceptions.barrier = threading.Barrier(concurrency)
            jobs = [board.post("all at once", details={"seconds": 30}) for _ in range(concurrency)]
            assert all(job.wait(30) for job in jobs)
            assert [job.attempts for job in jobs] == [1] * concurrency
        assert conductor.stop(timeout=20)
    eventually(lambda: not threads("jobboard-slot", "jobboard-claimer"))


def test_a_busy_conductor_works_on(board: JobBoard) -> None:
    limiter = threading.Thread(target=late_exceptions.limit_threads, daemon=True)
    limiter.start()
    with conducting(board, late_exceptions.handlers, concurrency=4) as conductor:
        jobs = board.post_many([Posting("too slow by chance") for _ in range(300)])
        for job in jobs:
            assert job.wait(60)
        late_exceptions.limited.put(0)
        limiter.join()
        eventually(lambda: idle(conductor))
        late_exceptions.barrier = threading.Barrier(4)
        jobs = [board.post("all at once", details={"seconds": 30}) for _ in range(4)]
        assert all(job.wait(60) for job in jobs)


@pytest.mark.parametrize("thread", ["MainThread", "jobboard-listen"])
def test_a_worker_that_can_hear_or_run_nothing_more_is_replaced(board: JobBoard, thread: str, tmp_path: Path) -> None:
    with conducting(board, late_exceptions.handlers, "process"):
        for number in range(3):
            raised = tmp_path / str(number)
            first = board.post("leave an exception", {"thread": thread, "raised": str(raised)}).get_result(60)
            # In the midst of a job it would be that job's failure.
            eventually(raised.exists, within=60)
            jobs: list[Job] = []
            while not jobs or jobs[-1].get_result(60) == first:
                jobs.append(board.post("pid"))
            assert {job.attempts for job in jobs} == {1}
