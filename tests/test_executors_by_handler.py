"""Handlers of one conductor in executors of their own."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
from helpers import chores
from helpers.conducting import conducting
from helpers.memory_board import board

from jobboard import Conductor, Handlers, JobBoard, JobFailed, RunningJob

__all__ = ["board"]


@pytest.fixture
def handlers() -> Handlers:
    handlers = Handlers()

    @handlers.handler("thread")
    def in_a_thread(job: RunningJob) -> Any:
        return os.getpid(), threading.current_thread().name

    @handlers.handler("loop", executor="asyncio")
    async def in_a_loop(job: Any) -> Any:
        return os.getpid(), threading.current_thread().name

    handlers.add("pid", chores.pid, executor="process")
    handlers.add("until killed", chores.ignore, executor="process", timeout=0.2, max_attempts=1)
    return handlers


def test_each_handler_runs_in_its_own(board: JobBoard, handlers: Handlers) -> None:
    with conducting(board, handlers, concurrency=2, grace=0.05) as conductor:
        jobs = [board.post(name) for name in ("thread", "loop", "pid") * 5]
        killed = board.post("until killed")
        results = [job.get_result(timeout=60) for job in jobs]
        assert all(pid == os.getpid() for pid, _ in results[0::3] + results[1::3])
        assert {name for _, name in results[0::3]}.isdisjoint({name for _, name in results[1::3]})
        assert os.getpid() not in results[2::3]
        # Only a process can be ended from outside; its slot is free again.
        with pytest.raises(JobFailed):
            killed.get_result(timeout=60)
        assert board.post("pid").get_result(timeout=60) != os.getpid()
        assert conductor.healthy
        assert conductor.stop(timeout=60)


def test_the_conductors_own_is_that_of_all_others(board: JobBoard) -> None:
    handlers = Handlers()
    handlers.add("pid", chores.pid)
    handlers.add("here", lambda job: os.getpid(), executor="thread")
    with conducting(board, handlers, "process"):
        assert board.post("pid").get_result(timeout=60) != os.getpid()
        assert board.post("here").get_result(timeout=60) == os.getpid()


def test_a_wrong_executor_is_refused_at_once(board: JobBoard) -> None:
    handlers = Handlers()
    with pytest.raises(TypeError, match="a handler's executor"):
        handlers.add("a", lambda job: None, executor=5)  # type: ignore[arg-type]
    handlers.add("a", lambda job: None, executor="threads")
    with pytest.raises(ValueError, match="did you mean thread"):
        Conductor("test", board, handlers)


def test_one_that_cannot_run_in_its_executor_leaves_nothing_running(board: JobBoard) -> None:
    handlers = Handlers()
    handlers.add("here", lambda job: None)
    handlers.add("local", lambda job: None, executor="process")
    before = set(threading.enumerate())
    conductor = Conductor("test", board, handlers)
    with pytest.raises(ValueError, match="process"):
        conductor.start()
    assert {thread.name for thread in set(threading.enumerate()) - before if "handler" in thread.name} == set()
    assert conductor.stop(timeout=10)
