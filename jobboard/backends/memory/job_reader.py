"""Reading jobs: callers get copies."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice

from jobboard.backends.memory.client import MemoryClient
from jobboard.backends.memory.stored_job import first_of_each_priority, sequence_of
from jobboard.backends.ordered import numbers_by_name, walk
from jobboard.backends.rows import JobRow, Page
from jobboard.events import HistoryEntry
from jobboard.states import JobState
from jobboard.stats import BoardStats, NameStats


class JobReader:
    """Pages begin above the position of the last row of the page before."""

    def __init__(self, client: MemoryClient) -> None:
        self._store, self._lock, self._begin = client.store, client.lock, client.begin

    def read(self, uuids: Sequence[str]) -> list[JobRow | None]:
        with self._lock:
            self._begin()
            rows = [self._store.rows.get(uuid) for uuid in uuids]
            return [None if row is None or row.index is None else row.copy() for row in rows]

    def history(self, uuid: str) -> list[HistoryEntry]:
        with self._lock:
            self._begin()
            row = self._store.rows.get(uuid)
            return [] if row is None or row.index is None else row.told()

    def find(self, name: str, key: str) -> JobRow | None:
        with self._lock:
            self._begin()
            row = self._store.keys.get((name, key))
            return None if row is None else row.copy()

    def page(
        self, states: Collection[JobState], names: frozenset[str] | None, cursor: object | None, size: int
    ) -> Page:
        if cursor is not None and not isinstance(cursor, int):
            raise TypeError(f"not a cursor of this backend: {cursor!r}")
        with self._lock:
            self._begin()
            indexes = [index for state, index in self._store.indexes() if state in states]
            orders = [order for index in indexes for order in index.orders(names)]
            positions = list(islice(walk(orders, cursor), size))
            rows = [self._store.by_sequence[sequence_of(position)].copy() for position in positions]
            return Page(rows, positions[-1] if len(positions) == size else None)

    def claimable(self, names: frozenset[str] | None, cursor: object | None, size: int) -> Page:
        with self._lock:
            self._begin()
            refused = frozenset(self._store.refused())
            if None in refused:
                return Page([], None)
            return self.page({JobState.UNCLAIMED}, names, cursor, size).without(refused)

    def outlook(self, names: frozenset[str] | None) -> JobState | None:
        with self._lock:
            self._begin()
            return self._store.outlook(names)

    def stats(self) -> BoardStats:
        with self._lock:
            now = self._begin()
            store = self._store
            numbers = numbers_by_name([store.delayed, store.unclaimed, store.claimed, store.trashed, store.blocked])
            names = {name: NameStats(*each) for name, each in numbers.items()}
            return BoardStats.of(names, self._age_of_oldest(now))

    def _age_of_oldest(self, now: float) -> float | None:
        """Look at the head of each priority, which became due first."""
        heads = [sequence_of(position) for position in first_of_each_priority(self._store.unclaimed.whole)]
        return max(0.0, now - min(self._store.by_sequence[head].place for head in heads)) if heads else None

    def count(self) -> int:
        with self._lock:
            self._begin()
            store = self._store
            return len(store.delayed) + len(store.blocked) + len(store.unclaimed) + len(store.claimed)
