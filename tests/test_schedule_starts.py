"""A trigger that begins at another moment whenever its program starts is told, since it may never fire."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from jobboard import AnyOf, At, Calendar, Cron, Every, JobBoard, Schedule
from jobboard.schedules.triggers import Trigger
from jobboard.testing import clock_of, fire_due, memory_board

HOUR = timedelta(hours=1)
NIGHTLY = Cron("0 3 * * *")


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with memory_board(now=datetime(2030, 1, 1, 12, tzinfo=UTC)) as board:
        yield board


def add(board: JobBoard, trigger: Trigger, **options: Any) -> None:
    board.schedules.add(Schedule("poll", trigger, "fetch", **options), "replace")


@pytest.mark.parametrize(
    "make", [lambda now: Every(hours=2, start=now), lambda now: AnyOf(NIGHTLY, Every(hours=2, start=now))]
)
def test_a_start_that_moves_with_each_restart_is_told(
    board: JobBoard, caplog: pytest.LogCaptureFixture, make: Any
) -> None:
    for restart in range(3):
        add(board, make(clock_of(board).now()))
        assert len(caplog.messages) == restart
        assert fire_due(board) == 0
        clock_of(board).move(HOUR)
    assert "schedule 'poll'" in caplog.text
    assert "leave it out" in caplog.text


def test_without_a_start_restarts_change_nothing(board: JobBoard, caplog: pytest.LogCaptureFixture) -> None:
    fired = 0
    for _ in range(6):
        add(board, Every(hours=2), max_instances=None)
        fired += fire_due(board)
        clock_of(board).move(HOUR)
    assert (fired, caplog.messages) == (2, [])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # It is another trigger in other ways, too.
        (lambda now: Every(hours=2, start=now), lambda now: Every(hours=3, start=now + HOUR)),
        # It is due no later than before.
        (lambda now: Every(hours=2, start=now), lambda now: Every(hours=2, start=now - HOUR)),
        (lambda now: Calendar(days=2, start=date(2030, 1, 3)), lambda now: Calendar(days=2, start=date(2030, 1, 2))),
        (lambda now: At(now + HOUR), lambda now: At(now + 2 * HOUR)),
        (lambda now: Every(hours=2), lambda now: Every(hours=2)),
    ],
)
def test_other_changes_are_not_told(board: JobBoard, caplog: pytest.LogCaptureFixture, before: Any, after: Any) -> None:
    now = clock_of(board).now()
    add(board, before(now))
    add(board, after(now))
    assert caplog.messages == []
