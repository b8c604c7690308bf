"""What a claim costs beside few and many jobs that wait."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from measuring import System, tell

_BACKLOGS = (10, 100, 1000)


def measure_backlog(system: System, claim: Callable[[], object], give_back: Callable[[], None]) -> None:
    """Find and claim the next job, with that many waiting; given back each time."""
    for backlog in _BACKLOGS:
        system.clean()
        system.post(backlog)
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            claim()
            times.append(time.perf_counter() - begin)
            give_back()
        tell(f"find and claim with {backlog:,} waiting", statistics.median(times) * 1e3, "ms")
