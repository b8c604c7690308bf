"""What ``status`` says once the store's clock was set back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from helpers.findings import found

from jobboard import Entity, Every, JobBoard, Schedule
from jobboard.operate.status import status
from jobboard.testing import clock_of, memory_board


def schedule(board: JobBoard) -> None:
    board.schedules.add(Schedule("report", Every(hours=1), "write"))


def wait_for_an_hour(board: JobBoard) -> None:
    board.post("write", delay=3600)


@pytest.mark.parametrize(
    ("write", "about"), [(schedule, "schedule 'report'"), (wait_for_an_hour, "job ")], ids=["schedule", "job"]
)
def test_a_clock_that_was_set_back_is_told(write: Callable[[JobBoard], object], about: str) -> None:
    with memory_board() as board:
        board.register_entity(Entity("scheduler", "clock", ttl=9000))
        clock = clock_of(board)
        clock._moved = 3590.0
        write(board)
        assert found(board) == []
        clock._moved = 0.0
        assert found(board) == [("ATTENTION", "clock", None)]
        text = status(board)["findings"][0]["text"]
        assert f"or was wrong before: {about}" in text
        assert "at a moment that is 59m" in text
        # A little is no more than a look takes, or hosts differ by.
        clock._moved = 3560.0
        assert found(board) == []
