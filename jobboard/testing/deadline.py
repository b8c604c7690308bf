"""Waiting for a condition with a deadline, which is how tests wait here; none of them sleeps and hopes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from jobboard.types import Seconds
from jobboard.validation import check_seconds

#: Long enough for a loaded machine; a right answer never takes it.
DEADLINE = 30.0

_Value = TypeVar("_Value")


def eventually(condition: Callable[[], _Value], within: Seconds = DEADLINE, every: Seconds = 0.01) -> _Value:
    """Return the first truthy answer of ``condition``; raises ``AssertionError`` after ``within`` seconds."""
    until, step = time.monotonic() + check_seconds("within", within), check_seconds("every", every)
    pause = threading.Event()
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > until:
            raise AssertionError(f"still {answer!r} after {within} seconds: {condition}")
        pause.wait(step)


def ends_within(seconds: float, *works: Callable[[], _Value]) -> _Value:
    """Run each in a thread of its own, and return what the first one returned; raises what one of them raised.

    Raises ``AssertionError`` if one has not ended after ``seconds``: its thread is left behind.
    """
    ended: list[Future[_Value]] = [Future() for _ in works]
    for work, end in zip(works, ended, strict=True):
        threading.Thread(target=_run, args=(work, end), daemon=True).start()
    late = wait(ended, seconds).not_done
    assert not late, f"{len(late)} of {len(works)} have not ended after {seconds} seconds"
    first, *_ = [end.result() for end in ended]
    return first


def _run(work: Callable[[], _Value], end: Future[_Value]) -> None:
    try:
        end.set_result(work())
    except BaseException as error:
        end.set_exception(error)
