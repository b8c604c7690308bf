"""The thread that calls what subscribes to events."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime

import pytest

from jobboard import EventKind, JobEvent
from jobboard.client import subscriptions as module
from jobboard.client.subscriptions import Subscriptions
from jobboard.testing import eventually


def test_each_subscription_may_be_so_far_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_MAX_QUEUED", 10)
    caplog.set_level(logging.WARNING, "jobboard.board")
    subscriptions, may_go_on = Subscriptions(), threading.Event()
    taken: list[list[JobEvent]] = [[] for _ in range(30)]
    blocked = subscriptions.queued(lambda _: may_go_on.wait(30) and None)
    tell = [subscriptions.queued(events.append) for events in taken]
    event = JobEvent(EventKind.POSTED, "uuid", "resize", None, None, datetime.now(UTC))
    blocked(event)
    for _ in range(10):
        for each in tell:
            each(event)
    assert caplog.text == ""
    tell[0](event)
    tell[0](event)
    may_go_on.set()
    assert eventually(lambda: [len(events) for events in taken] == [10] * 30)
    assert len(caplog.records) == 1
    subscriptions.close()
