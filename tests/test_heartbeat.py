"""A participant registers in each interval; if it can't, it says so once, until it could again."""

from __future__ import annotations

import logging
import time

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


def test_who_asks_once_in_an_interval_registers_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: asked[-1])
    with fetch("heartbeat", "memory://tests") as board:
        registered: list[float] = []
        heartbeat = Heartbeat(board, "conductor", "alice", dict, 10.0, then=lambda _: registered.append(asked[-1]))
        # It asks a little early, since the one before took a moment.
        for moment in (1000.002, 1005.0, 1010.0, 1015.0, 1020.001, 1030.0):
            asked.append(moment)
            heartbeat.register_when_due()
    assert registered == [1000.002, 1010.0, 1020.001, 1030.0]
