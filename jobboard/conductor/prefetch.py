"""Which running handlers will soon have ended, so that a job claimed now for each of them begins at once."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

from jobboard.conductor.execution import Execution

#: Seconds within which a slot should be free for a job that is claimed ahead.
_SOON = 0.05
#: Seconds after which a job that was claimed ahead and has not begun is given back.
MAX_WAIT = 0.5
#: How much of a name's duration the next, shorter run leaves.
_DECAY = 0.9


class RunningHandlers:
    """What runs now, and how long the handlers of each name have taken; its caller holds a lock.

    A long run counts at once, and is forgotten slowly: a name of which one job in fifty is long is not a quick one.
    """

    def __init__(self) -> None:
        self._durations: dict[str, float] = {}
        self._since: dict[Execution, float] = {}

    def add(self, executions: Sequence[Execution]) -> None:
        self._since.update(dict.fromkeys(executions, time.monotonic()))

    def remove(self, execution: Execution) -> bool:
        """Return whether it was one of them."""
        since = self._since.pop(execution, None)
        if since is None:
            return False
        name, took = execution.job.name, time.monotonic() - since
        self._durations[name] = max(took, _DECAY * self._durations.get(name, 0.0))
        return True

    def ending_soon(self) -> int:
        """Return how many will probably end within 50 ms; none of those that have already run for longer."""
        since_when = time.monotonic() - _SOON
        return sum(
            since >= since_when and self._durations.get(execution.job.name, math.inf) <= _SOON
            for execution, since in self._since.items()
        )
