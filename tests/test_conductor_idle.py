"""An idle conductor: the thread that has claimed a single job runs its handler, and another thread claims on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextvars import ContextVar

import pytest
from helpers.conducting import conducting
from helpers.memory_board import board

from jobboard import Conductor, Handlers, JobBoard, RunningJob, telemetry
from jobboard.testing import eventually

__all__ = ["board"]

_left = ContextVar("left", default="")


class _Claims(telemetry.Recorder):
    """Which threads have claimed jobs, and what handlers had left in their contexts."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.left: list[str] = []

    def claimed(self, board: str, name: str, waited: float | None) -> None:
        self.threads.append(threading.current_thread())
        self.left.append(_left.get())


@pytest.fixture
def claims() -> Iterator[_Claims]:
    recorder = _Claims()
    remove = telemetry.add(recorder)
    yield recorder
    remove()


def _wait_until_idle(conductor: Conductor) -> None:
    eventually(lambda: conductor._run is not None and conductor._run._slots._idle)


def test_it_runs_a_job_in_the_thread_that_claimed_it(board: JobBoard, claims: _Claims) -> None:
    ran: list[threading.Thread] = []
    handlers = Handlers()
    handlers.handler("quick")(lambda job: ran.append(threading.current_thread()))
    with conducting(board, handlers, concurrency=2) as conductor:
        for number in range(1, 4):
            _wait_until_idle(conductor)
            board.post("quick")
            eventually(lambda number=number: len(ran) == number)  # type: ignore[misc]
    assert ran == claims.threads


def test_while_that_thread_is_busy_another_one_claims(board: JobBoard) -> None:
    began, may_end, ran = threading.Event(), threading.Event(), threading.Event()

    def run_long(job: RunningJob) -> None:
        began.set()
        may_end.wait(60)

    handlers = Handlers()
    handlers.handler("long")(run_long)
    handlers.handler("quick")(lambda job: ran.set())
    with conducting(board, handlers, concurrency=2) as conductor:
        _wait_until_idle(conductor)
        board.post("long")
        assert began.wait(60)
        for _ in range(3):
            ran.clear()
            board.post("quick")
            assert ran.wait(60)
        assert "run_long" in conductor.describe()
        may_end.set()
        assert conductor.stop()


def test_claims_see_nothing_that_handlers_left_in_their_contexts(board: JobBoard, claims: _Claims) -> None:
    handlers = Handlers()
    handlers.handler("quick")(lambda job: _left.set("by a handler"))
    with conducting(board, handlers) as conductor:
        for number in range(1, 5):
            _wait_until_idle(conductor)
            board.post("quick")
            eventually(lambda number=number: len(claims.left) == number)  # type: ignore[misc]
    assert claims.left == [""] * 4
