"""How many jobs each shard has, as far as one client knows: what postings without a place of their own go by."""

from __future__ import annotations

import math
import time

from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.placement import less_loaded
from jobboard.errors import BoardUnavailable

#: After this many postings to a shard, and this many seconds, its jobs are counted again.
_POSTS_PER_COUNT, _SECONDS_PER_COUNT = 32, 5.0
#: For how many seconds a shard that did not answer gets nothing that can go elsewhere.
AVOIDED = 5.0


class Loads:
    """Counts what this client posts itself; now and then a shard says how many jobs it has by now."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._loads = [0.0] * fleet.count
        self._posted = [0] * fleet.count
        self._counted_at = [-math.inf] * fleet.count
        self._avoided_until = [-math.inf] * fleet.count

    def choose(self) -> int:
        """Return where a posting goes that can go anywhere; no request."""
        now = time.monotonic()
        loads = [
            math.inf if until > now else load for load, until in zip(self._loads, self._avoided_until, strict=True)
        ]
        return less_loaded(loads, self._fleet.choose)

    def failed(self, number: int) -> None:
        """Learn that a shard did not answer."""
        self._avoided_until[number] = time.monotonic() + AVOIDED

    def posted(self, number: int, jobs: int) -> None:
        """Learn that a shard got jobs; now and then it is asked how many it has."""
        self._avoided_until[number] = -math.inf
        self._loads[number] += jobs
        self._posted[number] += jobs
        now = time.monotonic()
        if self._posted[number] >= _POSTS_PER_COUNT and now >= self._counted_at[number] + _SECONDS_PER_COUNT:
            self._posted[number], self._counted_at[number] = 0, now
            try:
                self._loads[number] = float(self._fleet.shards[number].jobs.count())
            except BoardUnavailable:
                # The jobs are posted; what they were counted for can wait.
                return
