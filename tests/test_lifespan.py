"""What a lifespan makes: once in each process, before the first handler, and closed after the last one."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from helpers import chores, leased
from helpers.conducting import conducting, until_begun
from helpers.memory_board import board

from jobboard import AsyncRunningJob, BatchJob, Conductor, Handlers, JobBoard, RunningJob
from jobboard.errors import LifespanFailed
from jobboard.testing import eventually

__all__ = ["board"]

#: Where the conductor itself enters plain lifespans.
IN_CONDUCTOR = ["thread", "asyncio"]


@pytest.fixture
def handlers() -> Handlers:
    return Handlers(max_attempts=1)


def result_of(board: JobBoard, name: str, **details: Any) -> Any:
    return board.post(name, details).get_result(30)


class TestPlain:
    @pytest.mark.parametrize("executor", IN_CONDUCTOR)
    def test_one_thread_makes_it_once_and_closes_it_after_the_last_handler(
        self, board: JobBoard, handlers: Handlers, executor: str
    ) -> None:
        seen: list[tuple[str, threading.Thread]] = []
        begun, gate = threading.Event(), threading.Event()

        @handlers.lifespan
        def resources() -> Iterator[dict[str, int]]:
            seen.append(("open", threading.current_thread()))
            yield {"pool": 1}
            seen.append(("closed", threading.current_thread()))

        @handlers.handler("plain")
        def plain(job: RunningJob) -> int:
            begun.set()
            gate.wait(10)
            seen.append(("end", threading.current_thread()))
            return job.resources["pool"]

        @handlers.handler("later")
        async def later(job: AsyncRunningJob) -> int:
            return job.resources["pool"]

        conductor = Conductor("test", board, handlers, executor=executor, concurrency=2)
        conductor.start()
        assert result_of(board, "later") == 1
        job = board.post("plain")
        assert begun.wait(10)
        threading.Timer(0.1, gate.set).start()
        assert conductor.stop(timeout=10)
        assert job.get_result(1) == 1
        assert [word for word, _ in seen] == ["open", "end", "closed"]
        assert seen[0][1] is seen[2][1]
        assert conductor.unclosed is None

    def test_a_conductor_that_starts_again_makes_it_anew(self, board: JobBoard, handlers: Handlers) -> None:
        made = iter(range(10))

        @handlers.lifespan
        def resources() -> Iterator[int]:
            yield next(made)

        handlers.add("number", lambda job: job.resources)
        conductor = Conductor("test", board, handlers)
        for number in range(2):
            with conductor:
                assert result_of(board, "number") == number

    def test_each_collection_has_its_own(self, board: JobBoard) -> None:
        first, second, third = Handlers(), Handlers(), Handlers()
        every = Handlers()
        every.include(first)

        @first.lifespan
        def ones() -> Iterator[str]:
            yield "one"

        @second.lifespan(timeout=10)
        def twos() -> Iterator[str]:
            yield "two"

        for name, collection in (("one", first), ("two", second), ("none", third)):
            collection.add(name, lambda job: job.resources, max_attempts=1)
        every.include(first)
        every.include(second.copy())
        every.include(third)
        with conducting(board, every):
            assert [result_of(board, name) for name in ("one", "two")] == ["one", "two"]
            job = board.post("none")
            eventually(lambda: job.state.name == "TRASHED")
        assert "the handler for 'none' has no resources here" in (job.record.reason or "")

    def test_only_what_the_handlers_of_the_conductor_need_is_made(self, board: JobBoard, handlers: Handlers) -> None:
        @handlers.lifespan
        def resources() -> Iterator[None]:
            raise AssertionError("never entered")
            yield

        handlers.add("its", lambda job: None)
        other = Handlers()
        other.add("other", lambda job: 1)
        every = handlers.copy()
        every.include(other)
        with conducting(board, every.only({"other"})):
            assert result_of(board, "other") == 1

    def test_all_jobs_of_a_batch_have_it(self, board: JobBoard, handlers: Handlers) -> None:
        @handlers.lifespan
        def resources() -> Iterator[str]:
            yield "pool"

        @handlers.batch("batch", wait=0.2)
        def batch(jobs: list[BatchJob[str]]) -> dict[BatchJob[str], str]:
            return {job: job.resources for job in jobs}

        jobs = [board.post("batch") for _ in range(3)]
        with conducting(board, handlers):
            assert [job.get_result(10) for job in jobs] == ["pool"] * 3

    def test_a_handler_that_outlasts_the_stop_keeps_it_open(self, board: JobBoard, handlers: Handlers) -> None:
        seen: list[str] = []
        gate = threading.Event()

        @handlers.lifespan
        def resources() -> Iterator[None]:
            yield
            seen.append("closed")

        @handlers.handler("hold")
        def hold(job: RunningJob) -> None:
            gate.wait(20)
            seen.append("end")

        conductor = Conductor("test", board, handlers)
        conductor.start()
        until_begun(conductor, board.post("hold"))
        assert conductor.stop(timeout=0) is False
        assert seen == []
        gate.set()
        eventually(lambda: seen == ["end", "closed"])


class TestWhatFails:
    @pytest.mark.parametrize("executor", IN_CONDUCTOR)
    @pytest.mark.parametrize("is_async", [False, True])
    def test_an_error_keeps_the_conductor_from_starting(
        self, board: JobBoard, handlers: Handlers, executor: str, is_async: bool
    ) -> None:
        seen: list[str] = []
        is_away = True
        first = Handlers()

        @first.lifespan
        def before() -> Iterator[str]:
            yield "before"
            seen.append("closed")

        def plain() -> Iterator[str]:
            if is_away:
                raise OSError("the database is away")
            yield "there"

        async def later() -> AsyncIterator[str]:
            if is_away:
                raise OSError("the database is away")
            yield "there"

        async def look(job: AsyncRunningJob[str]) -> str:
            return job.resources

        first.add("first", lambda job: job.resources)
        handlers.include(first)
        handlers.lifespan(later if is_async and executor == "asyncio" else plain)
        handlers.add("look", look)
        conductor = Conductor("test", board, handlers, executor=executor)
        with pytest.raises(
            LifespanFailed, match=r"(plain|later) failed: .*, line \d+: OSError: the database"
        ) as caught:
            conductor.start()
        assert isinstance(caught.value.__cause__, OSError)
        eventually(lambda: seen == ["closed"])
        is_away = False
        with conductor:
            assert [result_of(board, name) for name in ("first", "look")] == ["before", "there"]

    @pytest.mark.parametrize("function", ["block", "wait"])
    def test_one_that_is_late_keeps_it_too_and_closes_what_it_makes_after_all(
        self, board: JobBoard, handlers: Handlers, function: str
    ) -> None:
        gate, closed = threading.Event(), threading.Event()

        def block() -> Iterator[None]:
            gate.wait(20)
            yield
            closed.set()

        async def wait() -> AsyncIterator[None]:
            try:
                await asyncio.Event().wait()
            finally:
                closed.set()
            yield

        async def nothing(_job: AsyncRunningJob) -> None: ...

        handlers.lifespan(timeout=0.1)(block if function == "block" else wait)
        handlers.add("nothing", nothing)
        conductor = Conductor("test", board, handlers, executor="asyncio")
        with pytest.raises(LifespanFailed, match=rf"{function} did not yield within 0\.1 s"):
            conductor.start()
        gate.set()
        assert closed.wait(10)

    @pytest.mark.parametrize("is_async", [False, True])
    def test_an_error_at_the_end_is_told_and_closes_the_others(
        self, board: JobBoard, handlers: Handlers, is_async: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        closed: list[str] = []
        first = Handlers()

        def before() -> Iterator[None]:
            yield
            closed.append("before")

        async def before_async() -> AsyncIterator[None]:
            yield
            closed.append("before")

        def plain() -> Iterator[None]:
            yield
            raise OSError("it does not answer")

        async def later() -> AsyncIterator[None]:
            yield
            raise OSError("it does not answer")

        async def nothing(_job: AsyncRunningJob) -> None: ...

        first.lifespan(before_async if is_async else before)
        first.add("first", nothing)
        handlers.include(first)
        handlers.lifespan(later if is_async else plain)
        handlers.add("nothing", nothing)
        conductor = Conductor("test", board, handlers, executor="asyncio")
        conductor.start()
        assert conductor.stop() is False
        assert closed == ["before"]
        assert "OSError: it does not answer" in (conductor.unclosed or "")
        assert "resources of handlers could not be closed" in caplog.text

    @pytest.mark.parametrize("is_async", [False, True])
    def test_one_that_never_closes_holds_up_no_stop(
        self, board: JobBoard, handlers: Handlers, is_async: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobboard.conductor.lifespan.CLOSE_TIMEOUT", 0.1)
        gate = threading.Event()

        def plain() -> Iterator[None]:
            yield
            gate.wait(20)

        async def later() -> AsyncIterator[None]:
            yield
            await asyncio.Event().wait()

        async def nothing(_job: AsyncRunningJob) -> None: ...

        handlers.lifespan(later if is_async else plain)
        handlers.add("nothing", nothing)
        conductor = Conductor("test", board, handlers, executor="asyncio")
        conductor.start()
        assert conductor.stop() is False
        assert "did not end within 0.1 s" in (conductor.unclosed or "")
        gate.set()

    def test_one_that_yields_twice_or_never(self, board: JobBoard, handlers: Handlers) -> None:
        times = 0

        @handlers.lifespan
        def resources() -> Iterator[None]:
            for _ in range(times):
                yield

        handlers.add("nothing", lambda job: None)
        conductor = Conductor("test", board, handlers)
        with pytest.raises(LifespanFailed, match="didn't yield"):
            conductor.start()
        times = 2
        conductor.start()
        assert conductor.stop() is False
        assert "didn't stop" in (conductor.unclosed or "")


class TestRegistration:
    def test_a_second_one_is_refused_by_name(self, handlers: Handlers) -> None:
        @handlers.lifespan
        def one() -> Iterator[None]:
            yield

        def two() -> Iterator[None]:
            yield

        with pytest.raises(ValueError, match="have a lifespan already: .*one; .*two can't be another"):
            handlers.lifespan(two)
        with pytest.raises(ValueError, match="already"):
            handlers.copy().lifespan(two)

    @pytest.mark.parametrize("wrong", [lambda: None, lambda job: (yield), 7])
    def test_what_can_not_be_one_is_refused(self, handlers: Handlers, wrong: Any) -> None:
        with pytest.raises(TypeError, match="can't be a lifespan"):
            handlers.lifespan(wrong)

    @pytest.mark.parametrize(("timeout", "error"), [(-1, ValueError), ("long", TypeError)])
    def test_a_timeout_is_a_number_of_seconds(self, handlers: Handlers, timeout: Any, error: type[Exception]) -> None:
        with pytest.raises(error, match="timeout"):
            handlers.lifespan(timeout=timeout)

    @pytest.mark.parametrize("executor", ["thread", "process", "asyncio"])
    def test_an_async_one_needs_a_handler_on_an_event_loop(
        self, board: JobBoard, handlers: Handlers, executor: str
    ) -> None:
        @handlers.lifespan
        async def resources() -> AsyncIterator[None]:
            yield

        handlers.add("pid", leased.pid.function)
        with pytest.raises(
            ValueError, match=r'resources is async, and needs an async handler in the executor "asyncio"'
        ):
            Conductor("test", board, handlers, executor=executor).start()


class TestOnALoop:
    def test_handlers_of_other_executors_may_stand_beside_its_own(self, board: JobBoard, handlers: Handlers) -> None:
        @handlers.lifespan
        async def resources() -> AsyncIterator[str]:
            yield "there"

        @handlers.handler("look")
        async def look(job: AsyncRunningJob[str]) -> str:
            return job.resources

        handlers.add("pid", chores.pid, executor="process")
        with conducting(board, handlers, "asyncio"):
            assert result_of(board, "look") == "there"
            assert result_of(board, "pid") != os.getpid()

    def test_the_task_that_entered_closes_and_what_it_runs_beside_lives_as_long(
        self, board: JobBoard, handlers: Handlers
    ) -> None:
        """Task groups, as clients of databases have them, must be left by the task that entered them."""
        seen: list[Any] = []

        async def beat() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("beat cancelled")
                raise

        @handlers.lifespan
        async def resources() -> AsyncIterator[asyncio.AbstractEventLoop]:
            async with asyncio.TaskGroup() as group:
                heart = group.create_task(beat())
                yield asyncio.get_running_loop()
                await asyncio.sleep(0)
                seen.append("closing")
                heart.cancel()
            seen.append("closed")

        @handlers.handler("cancel all")
        async def cancel_all(job: AsyncRunningJob) -> bool:
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                if task.get_coro().__name__ != "beat":  # type: ignore[union-attr]
                    task.cancel()
            await asyncio.sleep(0)
            return job.resources is asyncio.get_running_loop()

        handlers.add("plain", lambda job: job.resources)
        conductor = Conductor("test", board, handlers, executor="asyncio")
        conductor.start()
        assert result_of(board, "cancel all") is True
        plain = board.post("plain")
        eventually(lambda: plain.state.name == "TRASHED")
        assert "only async handlers" in (plain.record.reason or "")
        assert conductor.stop()
        assert seen == ["closing", "beat cancelled", "closed"]

    def test_a_loop_that_replaces_a_blocked_one_has_its_own_or_claims_nothing_until_it_has(
        self, board: JobBoard, handlers: Handlers
    ) -> None:
        gate, seen, is_away = threading.Event(), [], False

        @handlers.lifespan
        async def resources() -> AsyncIterator[int]:
            if is_away:
                raise OSError("away")
            seen.append("open")
            yield id(asyncio.get_running_loop())
            seen.append("closed")

        @handlers.handler("block", timeout=0.1)
        async def block(_job: AsyncRunningJob) -> None:
            gate.wait(20)

        @handlers.handler("look")
        async def look(job: AsyncRunningJob[int]) -> bool:
            return job.resources == id(asyncio.get_running_loop())

        with conducting(board, handlers, "asyncio", concurrency=2, grace=0.1) as conductor:
            is_away = True
            blocked = board.post("block")
            eventually(lambda: blocked.state.name == "TRASHED" and not conductor.healthy)
            looking = board.post("look")
            is_away = False
            assert looking.get_result(20) is True
            assert conductor.healthy
            assert seen == ["open", "open"]
            gate.set()
            eventually(lambda: seen == ["open", "open", "closed"])
            assert conductor.stop()
        assert seen[2:] == ["closed", "closed"]
