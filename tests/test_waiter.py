"""The waiter that most stores use, without a store."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from jobboard.backends.waiter import ConditionWaiter
from jobboard.errors import BoardUnavailable


class LookingWaiter(ConditionWaiter):
    """Sleeps for a millisecond at most; each look does what it is given, once."""

    def __init__(self, looks: list[Callable[[LookingWaiter], None]]) -> None:
        super().__init__(None, time.monotonic, 0.001)
        self.looks = looks

    def ready_in(self) -> float | None:
        self._begin_to_look()
        self.looks.pop(0)(self)
        return None

    def find(self) -> None:
        self._expect(self._clock())

    def close(self) -> None:
        pass


def find_nothing(waiter: LookingWaiter) -> None:
    pass


def fail(waiter: LookingWaiter) -> None:
    raise BoardUnavailable("no answer")


@pytest.mark.parametrize("last", [LookingWaiter.find, LookingWaiter.notify, LookingWaiter.interrupt, fail])
def test_who_hears_nothing_looks_again_until_there_is_a_reason_to_wake_up(
    last: Callable[[LookingWaiter], None],
) -> None:
    waiter = LookingWaiter([find_nothing] * 4 + [last])
    waiter.ready_in()
    waiter.wait(None)
    assert waiter.looks == []


def test_who_looks_again_keeps_the_time_limit() -> None:
    waiter = LookingWaiter([find_nothing] * 100_000)
    waiter.ready_in()
    waiter.wait(0.3)
    assert len(waiter.looks) < 100_000 - 1


def test_who_waits_on_a_board_that_was_closed_hears_of_it() -> None:
    waiter = LookingWaiter([find_nothing, find_nothing, ConditionWaiter.board_closed])
    waiter.ready_in()
    with pytest.raises(BoardUnavailable):
        waiter.wait(None)
