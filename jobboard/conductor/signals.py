"""SIGTERM and SIGINT for whoever runs conductors: the first stops in good order, the second at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_on_signals(stop: Callable[[], object]) -> Iterator[None]:
    """While inside, call ``stop`` in a thread at the first SIGTERM or SIGINT, and exit hard at the second.

    Only for the main thread. A signal handler must not wait for locks that the main thread may hold, hence the thread.
    The hard exit has the status 128 + the signal's number; claims run out by themselves, and worker processes end with
    their conductor.
    """
    seen: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        if seen:
            os._exit(128 + number)
        seen.append(number)
        threading.Thread(target=stop, name="jobboard-stop", daemon=True).start()

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
