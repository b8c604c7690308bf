"""A participant that can't register says so: once, until it could again."""

from __future__ import annotations

import logging

import pytest

from jobboard import fetch
from jobboard.heartbeat import Heartbeat


def test_a_registration_that_fails_is_a_warning_once_until_one_succeeds(caplog: pytest.LogCaptureFixture) -> None:
    board = fetch("heartbeat", "memory://tests")
    heartbeat = Heartbeat(board, "conductor", "alice", dict, interval=600.0)

    def warnings_of(number: int) -> list[str]:
        caplog.clear()
        for _ in range(number):
            heartbeat.register_again()
            heartbeat.register_when_due()
        return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]

    [warning] = warnings_of(3)
    assert warning.startswith("conductor alice can't register, or read what it is to do: board 'heartbeat' ")
    with board:
        assert (warnings_of(2), [each.name for each in board.entities()]) == ([], ["alice"])
    assert warnings_of(2) == [warning]
