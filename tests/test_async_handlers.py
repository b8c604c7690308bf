"""``async`` handlers: what they await is done in other threads than the event loop's, whichever executor runs them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import anyio
import pytest
from helpers.conducting import conducting
from helpers.embedded import MemoryHarness

from jobboard import AsyncRunningJob, Handlers, JobBoard, LogBook, Posting, RunningJob
from jobboard.aio import AsyncJobBoard
from jobboard.conductor.execution import Execution
from jobboard.testing import LossyBackend, eventually

T = TypeVar("T")
PATIENCE = 30


class ThreadsOf(LossyBackend):
    """Notes which threads make requests."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.threads: set[threading.Thread] = set()

    def _send(self, primitive: str, request: Callable[[], T]) -> T:
        self.threads.add(threading.current_thread())
        return super()._send(primitive, request)


@pytest.fixture
def backend() -> Iterator[ThreadsOf]:
    with MemoryHarness() as harness:
        yield ThreadsOf(harness.backend(harness.fresh_name()))


@pytest.fixture
def board(backend: ThreadsOf) -> Iterator[JobBoard]:
    with JobBoard(backend.board, backend) as board:
        yield board


@pytest.mark.parametrize("executor", ["asyncio", "thread"])
def test_what_a_handler_awaits_never_blocks_its_loop(board: JobBoard, backend: ThreadsOf, executor: str) -> None:
    handlers, requesters, loops = Handlers(), set[threading.Thread](), set[threading.Thread]()

    @handlers.handler("work")
    async def work(job: AsyncRunningJob) -> str:
        # The loop may run in the thread that claimed the job: only what is requested from here on counts.
        backend.threads.clear()
        loops.add(threading.current_thread())
        await job.progress(1, 2, "half")
        await job.checkpoint_state({"at": 1})
        book = await job.book
        assert book is not None
        book.meta["seen"] = True
        await job.save_book(book)
        posted = await job.board.post("next", details=job.details)
        [claimed] = await job.board.claim_next("me", names=["next"])
        assert (claimed, job.checkpoint, job.lost, job.cancelled) == (posted, {"at": 1}, False, False)
        await job.board.consume(claimed, "me")
        await job.complete(await job.board.job_count)
        requesters.update(backend.threads)
        return "dropped"

    with conducting(board, handlers, executor=executor):
        job = board.post("work", {"n": 1}, book=LogBook("notes"))
        assert job.wait(PATIENCE), job.record
        # The job is done a moment before its handler has noted them.
        assert eventually(lambda: set(requesters))
    assert (job.result, job.checkpoint, job.book and job.book.meta) == (1, {"at": 1}, {"seen": True})
    assert loops
    assert loops.isdisjoint(requesters)


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_no_call_of_the_board_blocks_the_loop(backend: ThreadsOf, loop: str) -> None:
    async def use() -> None:
        board = AsyncJobBoard(JobBoard(backend.board, backend))
        async with board, board.subscribe() as events:
            await board.save_book(book := LogBook("notes"))
            jobs = await board.post_many([Posting("work", book=book) for _ in range(4)])
            async for job in board.wait(PATIENCE):
                await board.claim(job, "me")
                await job.checkpoint_state(1)
                await job.extend_expiry(60)
                break
            await board.abandon(jobs[0], "me")
            await board.trash(jobs[1], by="me")
            await board.cancel(jobs[2])
            assert [found.uuid async for found in board.trashed()] == [jobs[1].uuid]
            assert not await jobs[3].wait(0.01)
            assert (await jobs[3].book) is not None
            await anext(events)
            await board.audit()
            assert [schedule async for schedule in board.schedules] == []

    anyio.run(use, backend=loop)
    assert backend.threads
    assert threading.current_thread() not in backend.threads


def test_what_was_not_awaited_is_done_in_order_before_the_job_ends(board: JobBoard) -> None:
    handlers = Handlers()

    @handlers.handler("work")
    async def work(job: AsyncRunningJob) -> None:
        job.progress(1)
        for number in range(20):
            job.checkpoint_state(number)

    with conducting(board, handlers, executor="asyncio"):
        job = board.post("work")
        assert job.wait(PATIENCE)
    assert job.checkpoint == 19


def test_a_failure_of_what_was_not_awaited_fails_the_job(board: JobBoard) -> None:
    handlers = Handlers(max_attempts=1)

    @handlers.handler("work")
    async def work(job: AsyncRunningJob) -> None:
        job.checkpoint_state(object())

    with conducting(board, handlers, executor="asyncio"):
        job = board.post("work")
        assert not job.wait(PATIENCE)
    assert "checkpoint can't be stored" in (job.record.reason or "")


def test_a_plain_handler_gets_a_plain_job(board: JobBoard) -> None:
    handlers = Handlers()

    @handlers.handler("work")
    def work(job: RunningJob) -> str:
        job.checkpoint_state(1)
        return job.board.post("next").uuid

    with conducting(board, handlers, executor="asyncio"):
        job = board.post("work")
        assert job.wait(PATIENCE)
    assert board.get(job.result).name == "next"


def test_all_handlers_of_a_board_share_one_async_board(board: JobBoard) -> None:
    handlers, boards = Handlers(), list[AsyncJobBoard]()

    @handlers.handler("work")
    async def work(job: AsyncRunningJob) -> None:
        boards.append(job.board)
        await asyncio.sleep(0)

    with conducting(board, handlers, executor="asyncio"):
        for job in board.post_many([Posting("work"), Posting("work")]):
            assert job.wait(PATIENCE)
    assert len(boards) == 2
    assert boards[0] is boards[1]


def test_a_call_waits_for_a_cancelled_one_that_goes_on_in_its_thread(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers, write, written = Handlers(), Execution.checkpoint, list[str]()
    is_sent, goes_on = threading.Event(), threading.Event()

    def checkpoint(self: Execution, state: str) -> None:
        if state == "older":
            is_sent.set()
            assert goes_on.wait(PATIENCE)
        write(self, state)
        written.append(state)

    @handlers.handler("work")
    async def work(job: AsyncRunningJob) -> None:
        older = asyncio.ensure_future(job.checkpoint_state("older"))
        assert await asyncio.to_thread(is_sent.wait, PATIENCE)
        older.cancel()
        newer = asyncio.ensure_future(job.checkpoint_state("newer"))
        await asyncio.wait([newer], timeout=0.1)
        goes_on.set()
        await newer

    monkeypatch.setattr(Execution, "checkpoint", checkpoint)
    with conducting(board, handlers, executor="asyncio"):
        assert board.post("work").wait(PATIENCE)
    assert written == ["older", "newer"]
