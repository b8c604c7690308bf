"""The lookers' primitives; they give copies, and change nothing but what time has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import islice

from jobboard.backends.memory.client import Client
from jobboard.backends.memory.row import first_of_each_priority, sequence_of
from jobboard.backends.ordered import walk
from jobboard.backends.rows import JobRow, Page
from jobboard.events import HistoryEntry
from jobboard.states import JobState
from jobboard.stats import BoardStats, NameStats


class Reading(Client):
    """Pages begin above the place of the last entry of the page before."""

    def read(self, uuids: Sequence[str]) -> list[JobRow | None]:
        with self._lock:
            self._begin()
            rows = [self._shelf.rows.get(uuid) for uuid in uuids]
            return [None if row is None or row.line is None else row.copy() for row in rows]

    def history(self, uuid: str) -> list[HistoryEntry]:
        with self._lock:
            self._begin()
            row = self._shelf.rows.get(uuid)
            return [] if row is None or row.line is None else row.told()

    def find(self, name: str, key: str) -> JobRow | None:
        with self._lock:
            self._begin()
            row = self._shelf.keys.get((name, key))
            return None if row is None else row.copy()

    def page(
        self, states: Collection[JobState], names: frozenset[str] | None, cursor: object | None, size: int
    ) -> Page:
        if cursor is not None and not isinstance(cursor, int):
            raise TypeError(f"not a cursor of this backend: {cursor!r}")
        with self._lock:
            self._begin()
            lines = [line for state, line in self._shelf.lines() if state in states]
            orders = [order for line in lines for order in line.orders(names)]
            places = list(islice(walk(orders, cursor), size))
            entries = [self._shelf.by_sequence[sequence_of(place)].copy() for place in places]
            return Page(entries, places[-1] if len(places) == size else None)

    def stats(self) -> BoardStats:
        with self._lock:
            now = self._begin()
            shelf = self._shelf
            return BoardStats(
                delayed=len(shelf.delayed),
                unclaimed=len(shelf.unclaimed),
                claimed=len(shelf.claimed),
                trashed=len(shelf.trashed),
                names=self._stats_by_name(),
                oldest_unclaimed=self._age_of_oldest(now),
            )

    def _stats_by_name(self) -> dict[str, NameStats]:
        shelf = self._shelf
        parts = (shelf.delayed, shelf.unclaimed, shelf.claimed, shelf.trashed)
        counts = [Counter({name: len(order) for name, order in line.by_name.items()}) for line in parts]
        return {name: NameStats(*(count[name] for count in counts)) for name in sorted(set().union(*counts))}

    def _age_of_oldest(self, now: float) -> float | None:
        """Look at the head of each priority; sequences grow with time."""
        heads = [sequence_of(place) for place in first_of_each_priority(self._shelf.unclaimed.whole)]
        return max(0.0, now - self._shelf.by_sequence[min(heads)].created_on) if heads else None

    def count(self) -> int:
        with self._lock:
            self._begin()
            shelf = self._shelf
            return len(shelf.delayed) + len(shelf.unclaimed) + len(shelf.claimed)
