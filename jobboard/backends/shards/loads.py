"""How many jobs each shard has, as far as one client knows: what postings without a place of their own go by."""

from __future__ import annotations

import math
import statistics
import time
from collections import defaultdict
from collections.abc import Collection

from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.placement import less_loaded
from jobboard.errors import BoardUnavailable

#: After this many postings to a shard, and this many seconds, its jobs are counted again.
_POSTS_PER_COUNT, _SECONDS_PER_COUNT = 32, 5.0

#: So many postings go to others at most because a shard was found to have more jobs than they have. Of a hundred who
#: post each does so: with more than this, the shard would soon be as far behind the others.
_MAX_CORRECTION = 1.0


class Loads:
    """Counts what this client posts itself; now and then a shard says whether it has more jobs than the others."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._loads = defaultdict[int, float](float)
        #: The last count of each shard that was counted.
        self._counts: dict[int, int] = {}
        self._posted = defaultdict[int, int](int)
        self._counted_at = defaultdict[int, float](lambda: -math.inf)

    def choose(self) -> int:
        """Return where a posting goes that can go anywhere; no request. What did not answer the last time gets none."""
        return less_loaded(self._loads, self._fleet.health.sound(self._fleet.taking), self._fleet.random)

    def posted(self, jobs: dict[int, int]) -> None:
        """Learn how many jobs shards got; now and then one is asked how many it has, or whether it answers again."""
        now = time.monotonic()
        for number, more in jobs.items():
            self._loads[number] += more
            self._posted[number] += more
            if self._posted[number] >= _POSTS_PER_COUNT and now >= self._counted_at[number] + _SECONDS_PER_COUNT:
                self._count(number)
        self._ask_doubtful(jobs)

    def _ask_doubtful(self, others: Collection[int]) -> None:
        """Ask one shard that was left alone for long enough; what is posted meanwhile waits for that."""
        health = self._fleet.health
        for number in health.doubtful():
            if number not in others and not health.is_down(number):
                self._count(number)
                return

    def _count(self, number: int) -> None:
        self._posted[number], self._counted_at[number] = 0, time.monotonic()
        try:
            self._counts[number] = count = self._fleet.ask(number, lambda shard: shard.jobs.count())
        except BoardUnavailable:
            # The jobs are posted; what they were counted for can wait.
            return
        # Others who post see the same: all of them together correct enough.
        more = count - statistics.fmean(self._counts.values())
        self._loads[number] += max(-_MAX_CORRECTION, min(_MAX_CORRECTION, more))
