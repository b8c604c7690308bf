"""The kit for users' own tests enters lifespans, or gives the resources that a test brings along."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from jobboard import AsyncBatchJob, AsyncRunningJob, Handlers, RunningJob
from jobboard.errors import LifespanFailed
from jobboard.testing import inline, memory_board, run_due


class Pool:
    def __init__(self) -> None:
        self.is_open = True
        self.thread = threading.current_thread()


@pytest.fixture
def made() -> list[Pool]:
    return []


@pytest.fixture
def handlers(made: list[Pool]) -> Handlers:
    handlers = Handlers(max_attempts=1)

    @handlers.lifespan
    def resources() -> Iterator[Pool]:
        made.append(Pool())
        yield made[-1]
        made[-1].is_open = False

    @handlers.handler("ask")
    def ask(job: RunningJob[Pool]) -> bool:
        if job.details.get("fails"):
            raise KeyError("no answer")
        return job.resources.is_open

    @handlers.handler("chain")
    def chain(job: RunningJob[Pool]) -> bool:
        return job.board.post("ask").get_result(0) is True

    return handlers


@pytest.fixture
def on_loop(made: list[Pool]) -> Handlers:
    handlers = Handlers(max_attempts=1)

    @handlers.lifespan
    async def resources() -> AsyncIterator[asyncio.AbstractEventLoop]:
        made.append(Pool())
        yield asyncio.get_running_loop()
        made[-1].is_open = False

    @handlers.handler("ask")
    async def ask(job: AsyncRunningJob[asyncio.AbstractEventLoop]) -> bool:
        if job.details.get("fails"):
            raise KeyError("no answer")
        return job.resources is asyncio.get_running_loop() and made[-1].is_open

    @handlers.batch("all")
    async def all_of(jobs: list[AsyncBatchJob[asyncio.AbstractEventLoop]]) -> dict[str, bool]:
        return {job.uuid: job.resources is asyncio.get_running_loop() for job in jobs}

    return handlers


def test_a_plain_one_is_entered_in_the_thread_of_the_test_for_each_run(handlers: Handlers, made: list[Pool]) -> None:
    with memory_board() as board:
        for _ in range(2):
            jobs = [board.post("ask"), board.post("ask")]
            run_due(board, handlers)
            assert [job.result for job in jobs] == [True, True]
        board.post("ask", {"fails": True})
        with pytest.raises(KeyError, match="no answer"):
            run_due(board, handlers)
    assert [(pool.is_open, pool.thread) for pool in made] == [(False, threading.current_thread())] * 3


def test_an_async_one_shares_its_loop_with_its_handlers(on_loop: Handlers, made: list[Pool]) -> None:
    with memory_board() as board:
        jobs = [board.post("ask"), board.post("all"), board.post("all")]
        run_due(board, on_loop)
        assert [job.result for job in jobs] == [True, True, True]
        board.post("ask", {"fails": True})
        with pytest.raises(KeyError, match="no answer"):
            run_due(board, on_loop)
    assert [pool.is_open for pool in made] == [False, False]


async def _run_due_on_a_loop(on_loop: Handlers) -> None:
    with memory_board() as board:
        job = board.post("ask")
        run_due(board, on_loop)
        assert job.result is True


def test_it_does_so_in_a_test_that_is_async_itself(on_loop: Handlers, made: list[Pool]) -> None:
    asyncio.run(_run_due_on_a_loop(on_loop))
    assert [pool.is_open for pool in made] == [False]


@pytest.mark.parametrize("which", ["handlers", "on_loop"])
def test_inline_closes_it_at_the_end_of_the_block(which: str, request: pytest.FixtureRequest, made: list[Pool]) -> None:
    found = request.getfixturevalue(which)
    with memory_board() as board, inline(board, found):
        assert board.post("ask").result is True
        if which == "handlers":
            assert board.post("chain").result is True
        assert [pool.is_open for pool in made] == [True]
    assert [pool.is_open for pool in made] == [False]


@pytest.mark.parametrize("which", ["handlers", "on_loop"])
def test_resources_of_the_test_take_its_place(which: str, request: pytest.FixtureRequest, made: list[Pool]) -> None:
    handlers = request.getfixturevalue(which)
    seen: list[object] = []
    handlers.add("look", lambda job: seen.append(job.resources))
    with memory_board() as board:
        board.post("look")
        run_due(board, handlers, resources=None)
        with inline(board, handlers, resources="fake"):
            board.post("look")
    assert (seen, made) == ([None, "fake"], [])


def test_what_fails_is_raised(handlers: Handlers) -> None:
    broken, unclosed = Handlers(), Handlers()

    @broken.lifespan
    def never() -> Iterator[None]:
        raise OSError("away")
        yield

    @unclosed.lifespan
    def for_ever() -> Iterator[None]:
        yield
        raise OSError("silent")

    broken.add("nothing", lambda job: None)
    unclosed.add("nothing", lambda job: None)
    with memory_board() as board:
        job = board.post("nothing")
        with pytest.raises(LifespanFailed, match="never failed: .*OSError: away"):
            run_due(board, broken)
        assert job.attempts == 0
        with pytest.raises(RuntimeError, match="could not be closed: .*OSError: silent"):
            run_due(board, unclosed)
        assert job.attempts == 1
