"""How long the calls of a board take while its store says nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from jobboard import BoardUnavailable, Conductor, Handlers, JobBoard
from jobboard.testing import eventually
from jobboard.testing.deadline import ends_within

#: What a busy machine may add, in seconds.
SLACK = 4.0


def late_calls(calls: Mapping[str, tuple[Callable[[], Any], float]]) -> dict[str, float]:
    """Make all calls at once, and return how long those took that took longer than their bound, in seconds.

    Each must end by ``BoardUnavailable``, or return False or None.
    """
    took: dict[str, float] = {}

    def make(name: str, call: Callable[[], Any]) -> None:
        began = time.monotonic()
        try:
            assert not call(), f"{name} found something out"
        except BoardUnavailable:
            pass
        took[name] = time.monotonic() - began

    ends_within(120.0, *(lambda name=name, call=call: make(name, call) for name, (call, _) in calls.items()))  # type: ignore[misc]
    return {name: seconds for name, seconds in took.items() if seconds > calls[name][1] + SLACK}


@contextmanager
def busy_conductor(board: JobBoard, name: str) -> Iterator[Conductor]:
    """A conductor of this board that works on a job of this name, until it is given back."""
    handlers, ended = Handlers(), threading.Event()
    handlers.add(name, lambda job: eventually(lambda: job.lost or ended.is_set(), 60))
    job = board.post(name)
    conductor = Conductor(name, board, handlers)
    conductor.start()
    eventually(lambda: board.find_owner(job) is not None)
    try:
        yield conductor
    finally:
        ended.set()
        conductor.stop(drain=False, timeout=0.1)
