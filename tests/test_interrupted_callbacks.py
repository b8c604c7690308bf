"""What a signal's handler raises is not taken for a fault of the code that it interrupts."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import pytest

from jobboard import Converter, Every, Posting, Schedule, Scheduler, telemetry
from jobboard.board import client_of
from jobboard.interrupts import is_of_signal_handler
from jobboard.operate.paging import page_of
from jobboard.operate.selecting import Selection
from jobboard.schedules import firing
from jobboard.testing import clock_of, fire_due, memory_board


class OutOfTime(Exception):
    """As a program raises from the handler of its alarm clock."""


def interrupt(_number: int, _frame: FrameType | None) -> None:
    raise OutOfTime


class Money:
    pass


class Interrupting(telemetry.Recorder):
    """A signal comes while it works."""

    def __init__(self, hook: str) -> None:
        self._hook = hook

    def requested(self, *_: object) -> None:
        self._come("requested")

    def trace_of_post(self, _board: str, _name: str) -> dict[str, str]:
        self._come("trace_of_post")
        return {}

    def _come(self, hook: str) -> None:
        if hook == self._hook:
            come()


def come(*_: object) -> Any:
    signal.raise_signal(signal.SIGUSR1)


@pytest.fixture(autouse=True)
def handled() -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, interrupt)
    yield
    signal.signal(signal.SIGUSR1, before)


def raised() -> Exception:
    try:
        come()
    except OutOfTime as error:
        return error
    raise AssertionError("no signal came")


class Handler:
    def method(self, number: int, frame: FrameType | None) -> None:
        interrupt(number, frame)

    def __call__(self, number: int, frame: FrameType | None, *_: object) -> None:
        interrupt(number, frame)


@pytest.mark.parametrize(
    "handler",
    [interrupt, Handler().method, Handler(), partial(interrupt)],
    ids=["function", "method", "object", "partial"],
)
def test_every_kind_of_handler_is_known(handler: Callable[..., Any]) -> None:
    signal.signal(signal.SIGUSR1, handler)
    assert is_of_signal_handler(raised())


def test_what_the_same_code_raises_by_itself_is_its_own() -> None:
    signal.signal(signal.SIGUSR1, lambda *_: None)
    with pytest.raises(ZeroDivisionError) as caught:
        come(1 / 0)
    assert not is_of_signal_handler(caught.value)


def test_a_value_is_not_left_as_it_is_on_the_board() -> None:
    has_posted = False

    def decode(_value: int) -> Money:
        if has_posted:
            come()
        return Money()

    with memory_board(converter=Converter().add("money", Money, lambda _: 1, decode)) as board:
        job = board.post("resize", details={"sum": Money()})
        has_posted = True
        for _ in range(2):
            with pytest.raises(OutOfTime):
                assert board.get(job.uuid).details


def test_a_posting_is_not_refused() -> None:
    with memory_board(converter=Converter().add("money", Money, come, Money)) as board:
        with pytest.raises(OutOfTime):
            board.post("resize", details={"sum": Money()})
        assert board.job_count == 0


@pytest.mark.parametrize("step", ["plan", "step_of"])
def test_a_schedule_is_not_set_aside(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    with memory_board() as board:
        board.schedules.add(Schedule("s", Every(hours=1), "resize"))
        clock_of(board).move(7200.0)
        with monkeypatch.context() as patch:
            patch.setattr(firing, step, come)
            with pytest.raises(OutOfTime):
                fire_due(board)
        assert fire_due(board) == 1


@pytest.mark.parametrize("hook", ["requested", "trace_of_post"])
def test_it_is_not_taken_for_a_fault_of_a_recorder(hook: str) -> None:
    with memory_board() as board:
        remove = telemetry.add(Interrupting(hook))
        try:
            with pytest.raises(OutOfTime):
                board.post("resize")
        finally:
            remove()


def test_it_is_not_taken_for_a_place_that_a_listing_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    with memory_board() as board:
        board.post_many([Posting("resize"), Posting("resize")])
        first = page_of(board, Selection(), size=1)
        monkeypatch.setattr(client_of(board).backend.jobs, "page", come)
        with pytest.raises(OutOfTime):
            page_of(board, Selection(), after=first.next)


def test_a_scheduler_that_is_interrupted_as_it_starts_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with memory_board() as board:
        scheduler = Scheduler(board)
        start = scheduler.start

        def interrupted_start() -> None:
            start()
            come()

        monkeypatch.setattr(scheduler, "start", interrupted_start)
        with pytest.raises(OutOfTime):
            scheduler.run()
        assert scheduler.wait(0.0)
