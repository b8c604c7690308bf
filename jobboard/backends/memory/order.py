"""The orders that a shelf keeps its jobs in: what is ready, what is due, and the listing."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator

#: A place in the claim order: the smaller is claimed first.
Place = tuple[int, int]


class ReadyOrder:
    """What is claimable, by job name, best first.

    A heap per name, whose entries may be stale (the job was claimed by name, replaced, trashed): they are dropped when
    they come up, so that every operation costs O(log n), whatever waits behind.
    """

    def __init__(self, is_ready: Callable[[Place, str], bool]) -> None:
        self._heaps: dict[str, list[tuple[Place, str]]] = {}
        #: What is in the heaps, so that a job that comes and goes by name is there once.
        self._queued: set[tuple[Place, str]] = set()
        self._is_ready = is_ready

    def add(self, name: str, place: Place, uuid: str) -> None:
        item = (place, uuid)
        if item not in self._queued:
            self._queued.add(item)
            heapq.heappush(self._heaps.setdefault(name, []), item)

    def names(self) -> list[str]:
        return list(self._heaps)

    def head(self, name: str) -> tuple[Place, str] | None:
        """Return the best job of a name, having dropped what is stale above it."""
        heap = self._heaps.get(name)
        while heap:
            if self._is_ready(*heap[0]):
                return heap[0]
            self._queued.discard(heapq.heappop(heap))
        self._heaps.pop(name, None)
        return None

    def take(self, names: Iterable[str], limit: int) -> list[str]:
        """Take the best jobs of these names out, best first."""
        heads = [(*head, name) for name in names if (head := self.head(name)) is not None]
        heapq.heapify(heads)
        taken: list[str] = []
        while heads and len(taken) < limit:
            _, uuid, name = heads[0]
            self._queued.discard(heapq.heappop(self._heaps[name]))
            taken.append(uuid)
            following = self.head(name)
            if following is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (*following, name))
        return taken


class DueOrder:
    """What changes by itself, soonest first; renewals leave stale entries, which are swept when they outnumber."""

    def __init__(self, is_current: Callable[[float, str], bool]) -> None:
        self._heap: list[tuple[float, str]] = []
        self._is_current = is_current
        self._sweep_at = 64

    def add(self, due: float, uuid: str) -> None:
        heapq.heappush(self._heap, (due, uuid))
        if len(self._heap) >= self._sweep_at:
            self._heap = sorted({item for item in self._heap if self._is_current(*item)})
            self._sweep_at = max(64, 2 * len(self._heap))

    def next(self) -> float | None:
        """Return when the next change is."""
        while self._heap:
            if self._is_current(*self._heap[0]):
                return self._heap[0][0]
            heapq.heappop(self._heap)
        return None

    def take(self, now: float) -> str | None:
        """Take out one job that is due, the one due first."""
        due = self.next()
        return heapq.heappop(self._heap)[1] if due is not None and due <= now else None


class Listing:
    """Every job in claim order, for paging; a page costs O(log n) and what it holds.

    Sequences only grow, so each rank's list is sorted by appending; a job that changes its rank is inserted.
    """

    def __init__(self) -> None:
        self._ranks: dict[int, list[int]] = {}
        self._uuids: dict[Place, str] = {}
        self._dead = 0

    def add(self, place: Place, uuid: str) -> None:
        rank, sequence = place
        sequences = self._ranks.setdefault(rank, [])
        if not sequences or sequence > sequences[-1]:
            sequences.append(sequence)
        elif sequences[bisect_left(sequences, sequence)] != sequence:
            insort(sequences, sequence)
        else:
            self._dead -= 1
        self._uuids[place] = uuid

    def remove(self, place: Place) -> None:
        del self._uuids[place]
        self._dead += 1
        if self._dead > 64 and self._dead > len(self._uuids):
            for rank, sequences in self._ranks.items():
                self._ranks[rank] = [number for number in sequences if (rank, number) in self._uuids]
            self._dead = 0

    def after(self, place: Place | None) -> Iterator[tuple[Place, str]]:
        """Iterate from behind a place; the listing must not change meanwhile."""
        for rank in sorted(self._ranks):
            if place is not None and rank < place[0]:
                continue
            sequences = self._ranks[rank]
            begin = bisect_right(sequences, place[1]) if place is not None and rank == place[0] else 0
            for index in range(begin, len(sequences)):
                uuid = self._uuids.get((rank, sequences[index]))
                if uuid is not None:
                    yield (rank, sequences[index]), uuid
