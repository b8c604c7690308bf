"""The asyncio executor: what it cancels, and what runs beside its loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable

import pytest
from helpers.conducting import conducting, state_of, until_begun
from helpers.memory_board import board

from jobboard import Conductor, Handlers, JobBoard, JobState, RunningJob
from jobboard.operate.why import why
from jobboard.testing import eventually

__all__ = ["board"]


@pytest.fixture
def handlers() -> Handlers:
    handlers = Handlers()
    handlers.add("echo", lambda job: job.details)
    return handlers


def test_async_handlers_share_one_loop_and_plain_ones_have_threads(board: JobBoard, handlers: Handlers) -> None:
    met = asyncio.Barrier(3)

    async def meet(_job: RunningJob) -> str:
        async with asyncio.timeout(10):
            await met.wait()
        return threading.current_thread().name

    handlers.add("meet", meet)
    handlers.add("plain", lambda job: threading.current_thread().name)
    with conducting(board, handlers, "asyncio", concurrency=3):
        jobs = [board.post("meet") for _ in range(3)]
        plain = board.post("plain")
        assert all(job.wait(10) for job in [*jobs, plain])
        assert {job.result for job in jobs} == {"jobboard-asyncio"}
        assert plain.result.startswith("jobboard-slot-")


def test_a_cancel_reaches_an_await_and_its_cleanup_runs(board: JobBoard, handlers: Handlers) -> None:
    cleaned = threading.Event()

    async def hold(_job: RunningJob) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    handlers.add("hold", hold)
    with conducting(board, handlers, "asyncio") as conductor:
        job = board.post("hold")
        until_begun(conductor, job)
        assert board.cancel(job) is False
        assert cleaned.wait(10)
        eventually(lambda: board.job_count == 0)


def test_a_plain_handler_keeps_its_slot_until_it_returns(board: JobBoard, handlers: Handlers) -> None:
    """Cancelling what waits for a thread would end nothing in it, and run more handlers than there are slots."""
    running, most, gate, lock = 0, 0, threading.Event(), threading.Lock()

    def count(_job: RunningJob) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        gate.wait(10)
        with lock:
            running -= 1

    handlers.add("count", count, timeout=0.05, max_attempts=1)
    with conducting(board, handlers, "asyncio", concurrency=2):
        jobs = [board.post("count") for _ in range(4)]
        eventually(lambda: [state_of(board, job) for job in jobs[:2]] == [JobState.TRASHED] * 2 and most == 2)
        assert [state_of(board, job) for job in jobs[2:]] == [JobState.UNCLAIMED] * 2
        gate.set()
        assert board.post("echo").wait(10)
    assert most == 2


def test_a_task_that_is_lost_before_its_first_step_frees_its_slot(board: JobBoard, handlers: Handlers) -> None:
    blocked, gate, begun = threading.Event(), threading.Event(), []

    async def block(_job: RunningJob) -> None:
        blocked.set()
        gate.wait(10)

    async def begin(job: RunningJob) -> None:
        begun.append(job.uuid)

    handlers.add("block", block)
    handlers.add("begin", begin)
    with conducting(board, handlers, "asyncio", concurrency=2, expiry=0.3) as conductor:
        blocking = board.post("block")
        assert blocked.wait(10)
        job = board.post("begin")
        eventually(lambda: state_of(board, job) is JobState.CLAIMED)
        board.pause("begin")
        board.release(job, reason="a test")
        eventually(lambda: len(conductor._run._renewer.held()) == 1)
        gate.set()
        assert blocking.wait(10)
        eventually(lambda: conductor._run._slots.taken == 0)
        assert (begun, state_of(board, job)) == ([], JobState.UNCLAIMED)


def test_a_handler_that_swallows_its_cancel_holds_up_no_other(board: JobBoard, handlers: Handlers) -> None:
    gate = threading.Event()

    async def swallow(_job: RunningJob) -> str:
        while not gate.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                pass
        return "finished all the same"

    handlers.add("swallow", swallow)
    with conducting(board, handlers, "asyncio", concurrency=2, expiry=0.3) as conductor:
        job = board.post("swallow")
        until_begun(conductor, job)
        board.cancel(job)
        assert board.post("echo").wait(10)
        gate.set()
        assert job.wait(10)
        assert job.result == "finished all the same"


async def raise_in_a_subtask(error: type[BaseException]) -> None:
    async def fail() -> None:
        raise error

    await asyncio.create_task(fail())


async def exit_in_a_callback() -> None:
    def fail() -> None:
        raise SystemExit(3)

    asyncio.get_running_loop().call_soon(fail)
    await asyncio.sleep(60)


async def stop_the_loop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)


async def close_the_loop() -> None:
    """As a thread can in the moment when the loop is stopped."""
    loop = asyncio.get_running_loop()
    loop._thread_id = None  # type: ignore[attr-defined]
    loop.close()
    await asyncio.sleep(60)


ENDERS: dict[str, tuple[Callable[[], Awaitable[None]], str | None]] = {
    "SystemExit in a subtask": (lambda: raise_in_a_subtask(SystemExit), "SystemExit"),
    "KeyboardInterrupt in a subtask": (lambda: raise_in_a_subtask(KeyboardInterrupt), "KeyboardInterrupt"),
    "SystemExit in a callback": (exit_in_a_callback, "timed out after 0.3 s"),
    "loop.stop": (stop_the_loop, None),
    "loop.close": (close_the_loop, "its event loop was closed"),
}


@pytest.mark.parametrize("name", ENDERS)
def test_no_handler_ends_the_loop(board: JobBoard, handlers: Handlers, name: str) -> None:
    function, reason = ENDERS[name]

    async def end(_job: RunningJob) -> None:
        await function()

    async def echo_later(job: RunningJob) -> object:
        await asyncio.sleep(0.01)
        return job.details

    handlers.add("end", end, max_attempts=1, timeout=0.3 if name == "SystemExit in a callback" else 30)
    handlers.add("echo later", echo_later)
    with conducting(board, handlers, "asyncio", concurrency=2) as conductor:
        job = board.post("end")
        eventually(lambda: state_of(board, job) in (JobState.TRASHED, JobState.COMPLETE))
        assert board.get(job.uuid).record.reason == reason
        assert board.post("echo later").wait(10)
        assert conductor.healthy
        assert conductor.stop(timeout=10)
    eventually(lambda: "jobboard-asyncio" not in {thread.name for thread in threading.enumerate()})


def test_without_a_loop_nothing_is_claimed_and_operators_are_told(
    board: JobBoard, handlers: Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def echo_later(job: RunningJob) -> object:
        return job.details

    def fail() -> None:
        raise OSError("too many open files")

    handlers.add("echo later", echo_later)
    monkeypatch.setattr("jobboard.conductor.executors.loop._RETRY_DELAY", 0.01)
    with monkeypatch.context() as broken:
        broken.setattr(asyncio, "new_event_loop", fail)
        conductor = Conductor("test", board, handlers, executor="asyncio", expiry=1.0)
        conductor.start()
        eventually(lambda: not conductor.healthy)
        job = board.post("echo later")
        text = eventually(lambda: [reason.text for reason in why(board, job) if reason.kind == "stuck"])
        assert "no event loop can be made: too many open files" in text[0]
        assert state_of(board, job) is JobState.UNCLAIMED
    assert job.wait(10)
    assert conductor.healthy
    assert conductor.stop(timeout=10)


@pytest.mark.parametrize("executor", ["asyncio", "thread"])
@pytest.mark.parametrize("later", [False, True])
def test_a_forked_child_goes_on_nowhere(board: JobBoard, handlers: Handlers, executor: str, later: bool) -> None:
    pid = os.getpid()

    async def fork(_job: RunningJob) -> int:
        child = os.fork()
        if not child and later:
            await asyncio.sleep(0.01)
        return child

    handlers.add("fork", fork)
    with conducting(board, handlers, executor):
        job = board.post("fork")
        assert job.wait(10)
        assert os.getpid() == pid
        assert os.waitpid(job.result, 0)[0] == job.result
        assert board.post("echo").wait(10)
