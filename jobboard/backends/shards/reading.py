"""What there is to read of jobs: of one job from its shard, of all from each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from jobboard.backends.base import Backend
from jobboard.backends.rows import JobRow, Page
from jobboard.backends.shards.claims import claim_order
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.merging import merged_page
from jobboard.backends.shards.placement import text_of_key
from jobboard.events import HistoryEntry
from jobboard.states import JobState
from jobboard.stats import COUNTED, BoardStats, NameStats


class Reading:
    """A page is that of the whole board; each costs a request to every shard, or two."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def read(self, uuids: Sequence[str]) -> list[JobRow | None]:
        return self._fleet.read(uuids)

    def history(self, uuid: str) -> list[HistoryEntry]:
        return self._fleet.ask_of(uuid, lambda shard: shard.jobs.history(uuid))

    def find(self, name: str, key: str) -> JobRow | None:
        first = self._fleet.map.now.place(text_of_key(name, key))
        # A job of a lane is where its lane is.
        for number in (first, *(other for other in self._fleet.present if other != first)):
            row = self._fleet.ask(number, lambda shard: shard.jobs.find(name, key))
            if row is not None:
                self._fleet.remember(row.uuid, number)
                return row
        return None

    def page(
        self, states: Collection[JobState], names: frozenset[str] | None, cursor: object | None, size: int
    ) -> Page:
        return self._page(cursor, size, lambda shard, inner, most: shard.jobs.page(states, names, inner, most))

    def claimable(self, names: frozenset[str] | None, cursor: object | None, size: int) -> Page:
        """Return a page of those shards that answer, as claims do."""
        with self._fleet.passing_over_down():
            return self._page(cursor, size, lambda shard, inner, most: shard.jobs.claimable(names, inner, most))

    def outlook(self, names: frozenset[str] | None) -> JobState | None:
        """Return the best of what those shards say that answer."""
        with self._fleet.passing_over_down():
            found = set(self._fleet.everywhere(lambda shard: shard.jobs.outlook(names)).values())
        return next((state for state in (JobState.UNCLAIMED, JobState.BLOCKED) if state in found), None)

    def _page(self, cursor: object | None, size: int, read: Callable[[Backend, Any, int], Page]) -> Page:
        def read_part(shard: Backend, inner: Any, most: int) -> tuple[list[JobRow], Any]:
            page = read(shard, inner, most)
            return page.rows, page.cursor

        return Page(*merged_page(self._fleet, cursor, size, read_part, claim_order))

    def stats(self) -> BoardStats:
        return sum_of(self._fleet.everywhere(lambda shard: shard.jobs.stats()).values())

    def count(self) -> int:
        return sum(self._fleet.everywhere(lambda shard: shard.jobs.count()).values())


def sum_of(parts: Collection[BoardStats]) -> BoardStats:
    """Return the numbers of a board from those of its shards."""
    names: dict[str, NameStats] = {}
    for part in parts:
        for name, stats in part.names.items():
            before = names.get(name, NameStats())
            names[name] = NameStats(**{each: getattr(before, each) + getattr(stats, each) for each in COUNTED})
    oldest = [part.oldest_unclaimed for part in parts if part.oldest_unclaimed is not None]
    return BoardStats.of(names, max(oldest, default=None))
