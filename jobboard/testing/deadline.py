"""Waiting for a condition with a deadline, which is how tests wait here; none of them sleeps and hopes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

#: Long enough for a loaded machine; a right answer never takes it.
DEADLINE = 10.0

_Value = TypeVar("_Value")


def eventually(condition: Callable[[], _Value], within: float = DEADLINE, every: float = 0.01) -> _Value:
    """Return the first truthy answer of ``condition``; raises ``AssertionError`` after ``within`` seconds."""
    until = time.monotonic() + within
    pause = threading.Event()
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > until:
            raise AssertionError(f"still {answer!r} after {within} seconds: {condition}")
        pause.wait(every)
