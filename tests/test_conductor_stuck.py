"""Handlers that never return: their slots are replaced up to a bound, and beyond it the conductor says so."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator

import pytest
from helpers.conducting import conducting, state_of, until_begun
from helpers.memory_board import board

from jobboard import Conductor, Handlers, JobBoard, JobState, RunningJob
from jobboard.operate.views import owners
from jobboard.operate.why import why
from jobboard.testing import eventually

__all__ = ["board"]

EXECUTORS = ("thread", "asyncio")


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What hanging handlers wait for; opened in the end."""
    gate = threading.Event()
    yield gate
    gate.set()


@pytest.fixture
def handlers(gate: threading.Event) -> Handlers:
    async def hang_later(_job: RunningJob) -> None:
        while not gate.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                pass

    handlers = Handlers()
    handlers.add("hang", lambda _job: gate.wait(30), max_attempts=1, timeout=0.05)
    handlers.add("hang on", lambda _job: gate.wait(30), max_attempts=1)
    handlers.add("hang later", hang_later, max_attempts=1, timeout=0.05)
    handlers.add("echo", lambda job: job.details)
    return handlers


def hanging(executor: str) -> str:
    return "hang later" if executor == "asyncio" else "hang"


def stuck(conductor: Conductor) -> int:
    number: int = conductor._run.health()["stuck"]
    return number


@pytest.mark.parametrize("executor", EXECUTORS)
class TestTheBound:
    def test_a_stuck_slot_is_replaced(
        self, board: JobBoard, handlers: Handlers, gate: threading.Event, executor: str
    ) -> None:
        with conducting(board, handlers, executor, grace=0.05) as conductor:
            job = board.post(hanging(executor))
            eventually(lambda: stuck(conductor) == 1)
            eventually(lambda: state_of(board, job) is JobState.TRASHED)
            assert board.post("echo").wait(10)
            assert conductor.healthy
            gate.set()
            eventually(lambda: stuck(conductor) == 0)
            assert board.post("echo").wait(10)

    def test_beyond_the_bound_no_more_of_the_name_is_claimed_until_one_returns(
        self, board: JobBoard, handlers: Handlers, gate: threading.Event, executor: str
    ) -> None:
        with conducting(board, handlers, executor, grace=0.05, concurrency=2, max_stuck=1) as conductor:
            for number in (1, 2):
                board.post(hanging(executor))
                eventually(lambda number=number: stuck(conductor) == number)
                eventually(lambda number=number: conductor.healthy == (number == 1))
            left = board.post(hanging(executor))
            assert board.post("echo").wait(10), "other names are claimed"
            assert state_of(board, left) is JobState.UNCLAIMED
            assert "stuck" in [
                reason.kind
                for reason in eventually(lambda: [reason for reason in why(board, left) if reason.kind == "stuck"])
            ]
            gate.set()
            eventually(lambda: state_of(board, left) is not JobState.UNCLAIMED)
            eventually(lambda: conductor.healthy)
            assert board.post("echo").wait(10)

    def test_without_any_replacement_the_slot_is_lost_until_it_returns(
        self, board: JobBoard, handlers: Handlers, gate: threading.Event, executor: str
    ) -> None:
        with conducting(board, handlers, executor, grace=0.05, max_stuck=0) as conductor:
            board.post(hanging(executor))
            eventually(lambda: not conductor.healthy)
            echo = board.post("echo")
            assert echo.wait(0.2) is False
            gate.set()
            assert echo.wait(10)
            assert conductor.healthy

    def test_a_drain_does_not_wait_for_stuck_slots(self, board: JobBoard, handlers: Handlers, executor: str) -> None:
        with conducting(board, handlers, executor, grace=0.05) as conductor:
            board.post(hanging(executor))
            eventually(lambda: stuck(conductor) == 1)
            began = time.monotonic()
            assert conductor.stop(timeout=30) is False
            assert time.monotonic() - began < 20

    def test_it_ends_itself_if_told_to(self, board: JobBoard, handlers: Handlers, executor: str) -> None:
        with conducting(board, handlers, executor, grace=0.05, max_stuck=0, on_stuck="exit") as conductor:
            board.post(hanging(executor))
            assert conductor.wait(10)
            assert not conductor.healthy
            conductor.start()
            assert conductor.healthy
            assert board.post("echo").wait(10)

    def test_a_slot_whose_claim_was_broken_or_cancelled_is_stuck_too(
        self, board: JobBoard, handlers: Handlers, executor: str
    ) -> None:
        with conducting(board, handlers, executor, grace=0.05) as conductor:
            cancelled = board.post("hang on")
            until_begun(conductor, cancelled)
            assert board.cancel(cancelled) is False
            eventually(lambda: stuck(conductor) == 1)
            eventually(lambda: board.job_count == 0)
            broken = board.post("hang on")
            until_begun(conductor, broken)
            board.trash(broken, by="operator", reason="a test")
            eventually(lambda: stuck(conductor) == 2)


class TestWhatIsSaid:
    def test_the_warning_shows_where_the_handler_is_and_no_details(
        self, board: JobBoard, handlers: Handlers, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING), conducting(board, handlers, grace=0.05):
            board.post("hang", details={"password": "planted"})
            said = eventually(lambda: [text for text in caplog.messages if "is stuck" in text])
        assert "gate.wait(30)" in said[0]
        assert "planted" not in caplog.text

    def test_operators_see_it(self, board: JobBoard, handlers: Handlers) -> None:
        with conducting(board, handlers, grace=0.05, max_stuck=0, expiry=1.0) as conductor:
            board.post("hang")
            entity = eventually(lambda: next((e for e in board.entities() if not e.metadata["healthy"]), None))
            assert entity.metadata["stuck"] == 1
            assert entity.metadata["refused"] == ["hang"]
            assert [(row["owner"], row["jobs"], row["stuck"]) for row in owners(board)] == [(conductor.who, 0, 1)]
            waiting = board.post("echo")
            assert [reason.kind for reason in why(board, waiting)] == ["no_free_slot", "stuck"]


def test_a_handler_that_blocks_its_loop_holds_up_no_other_for_ever(
    board: JobBoard, handlers: Handlers, gate: threading.Event
) -> None:
    async def block(_job: RunningJob) -> None:
        gate.wait(30)

    async def wait_twice(job: RunningJob) -> int:
        if job.token == 1:
            await asyncio.sleep(60)
        return job.attempts

    async def pass_by(_job: RunningJob) -> None: ...

    handlers.add("block", block, max_attempts=1, timeout=0.2)
    handlers.add("innocent", wait_twice)
    handlers.add("pass", pass_by)
    with conducting(board, handlers, "asyncio", concurrency=4, grace=0.05) as conductor:
        innocent = board.post("innocent")
        until_begun(conductor, innocent)
        blocking, new = board.post("block"), board.post("pass")
        assert new.wait(10), "others have a new loop"
        assert innocent.wait(10), "and who shared the old one is run again"
        assert innocent.result == 1, "which is no failure"
        eventually(lambda: state_of(board, blocking) is JobState.TRASHED)
        gate.set()
        eventually(lambda: stuck(conductor) == 0)
        eventually(lambda: sum(thread.name == "jobboard-asyncio" for thread in threading.enumerate()) == 1)


@pytest.mark.parametrize(("name", "value", "error"), [
    ("max_stuck", -1, ValueError), ("max_stuck", True, TypeError), ("max_stuck", "1", TypeError),
    ("on_stuck", "leave", ValueError), ("on_stuck", None, ValueError),
])  # fmt: skip
def test_odd_options_are_refused(
    board: JobBoard, handlers: Handlers, name: str, value: object, error: type[Exception]
) -> None:
    with pytest.raises(error, match=name):
        Conductor("test", board, handlers, **{name: value})  # type: ignore[arg-type]
