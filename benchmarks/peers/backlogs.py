"""What a claim costs beside few and many jobs that wait."""

from __future__ import annotations

import statistics
import time
from typing import Any

from measuring import tell

_BACKLOGS = (10, 100, 1000)


def measure_backlog(system: Any) -> None:
    """Find and claim the next job, with few and with many waiting; given back each time."""
    for backlog in _BACKLOGS:
        system.clean()
        system.post(backlog)
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            system.claim()
            times.append(time.perf_counter() - begin)
            system.give_back()
        tell(f"find and claim with {backlog:,} waiting", statistics.median(times) * 1e3, "ms")
