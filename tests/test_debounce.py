"""Replacements that delay a job again and again, for an hour of a clock that the test moves."""

from __future__ import annotations

from datetime import timedelta

from jobboard import JobBoard
from jobboard.testing import clock_of, memory_board

_DELAY, _MOST, _HOUR = 5.0, 60.0, 3600.0
#: Added to each step: of the 24 that _MOST takes, half of one.
_MORE = 0.05


def _hour(board: JobBoard, every: float) -> list[dict[str, int]]:
    """Post every so many seconds, consume what is due, and return its details."""
    ran = []
    clock = clock_of(board)
    begin = clock.now()
    for number in range(int(_HOUR / every)):
        for job in board.claim_next("worker", limit=9):
            assert job.details is not None
            ran.append(job.details)
            board.consume(job, "worker")
        board.post("index", {"number": number}, key="k", delay=_DELAY, max_delay=_MOST, if_exists="replace")
        # The clock also goes on by itself; so a step is never too short, nor much too long on a slow machine.
        clock.move_to(begin + (number + 1) * timedelta(seconds=every + _MORE))
    return ran


def test_a_job_that_is_always_replaced_runs_as_often_as_max_delay_says() -> None:
    with memory_board() as board:
        ran = _hour(board, _DELAY / 2)
    assert len(ran) == _HOUR / _MOST - 1
    # With the details of the last post before it is due.
    assert [details["number"] for details in ran] == [24 * turn - 1 for turn in range(1, 60)]


def test_a_job_that_nobody_replaces_in_time_runs_after_its_delay() -> None:
    with memory_board() as board:
        ran = _hour(board, 2 * _DELAY)
    assert [details["number"] for details in ran] == list(range(int(_HOUR / (2 * _DELAY)) - 1))
