"""Keys in ascending order that can be added, removed and walked at any place, at a cost that hardly grows."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, islice
from typing import Any, Generic, TypeVar

#: A number, or a tuple of numbers.
K = TypeVar("K", bound=Any)

#: A change moves at most this many keys; blocks below a quarter of it are joined with a neighbour.
LARGEST_BLOCK = 1024


class SortedKeys(Generic[K]):
    """Unique keys in ascending order, cut into blocks."""

    __slots__ = ("_blocks", "_lasts", "_size")

    def __init__(self) -> None:
        self._blocks: list[list[K]] = []
        #: The last key of each block.
        self._lasts: list[K] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._blocks)

    def __reversed__(self) -> Iterator[K]:
        return chain.from_iterable(map(reversed, reversed(self._blocks)))

    def __contains__(self, key: K) -> bool:
        at = bisect_left(self._lasts, key)
        if at == len(self._blocks):
            return False
        block = self._blocks[at]
        return bool(block[bisect_left(block, key)] == key)

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return len(self._blocks)

    def first(self) -> K | None:
        """Return the lowest key, or None."""
        return self._blocks[0][0] if self._blocks else None

    def after(self, key: K) -> Iterator[K]:
        """Iterate over the keys above ``key``, which need not be there."""
        at = bisect_right(self._lasts, key)
        if at == len(self._blocks):
            return iter(())
        block = self._blocks[at]
        rest = islice(block, bisect_right(block, key), None)
        return chain(rest, chain.from_iterable(islice(self._blocks, at + 1, None)))

    def add(self, key: K) -> None:
        """Add a key that is not there."""
        lasts = self._lasts
        if not lasts:
            self._blocks.append([key])
            lasts.append(key)
            self._size = 1
            return
        if key > lasts[-1]:
            at = len(lasts) - 1
            block = self._blocks[at]
            block.append(key)
            lasts[at] = key
        else:
            at = bisect_left(lasts, key)
            block = self._blocks[at]
            insort(block, key)
        self._size += 1
        if len(block) > LARGEST_BLOCK:
            self._split(at)

    def remove(self, key: K) -> None:
        """Remove a key; raises ``KeyError`` if it is not there."""
        lasts = self._lasts
        at = bisect_left(lasts, key)
        if at == len(lasts):
            raise KeyError(key)
        block = self._blocks[at]
        index = bisect_left(block, key)
        if block[index] != key:
            raise KeyError(key)
        del block[index]
        self._size -= 1
        if not self._size:
            del self._blocks[at], lasts[at]
        elif len(block) * 4 < LARGEST_BLOCK and len(lasts) > 1:
            self._join(at)
        elif index == len(block):
            lasts[at] = block[-1]

    def _split(self, at: int) -> None:
        block = self._blocks[at]
        middle = len(block) // 2
        self._blocks.insert(at + 1, block[middle:])
        del block[middle:]
        self._lasts.insert(at, block[-1])

    def _join(self, at: int) -> None:
        """Join a block that has become small with its neighbour, so that there never are many small ones."""
        blocks, lasts = self._blocks, self._lasts
        at = max(at, 1) - 1
        blocks[at] += blocks.pop(at + 1)
        del lasts[at]
        lasts[at] = blocks[at][-1]
        if len(blocks[at]) > LARGEST_BLOCK:
            self._split(at)


def first_of_each_span(places: SortedKeys[int], span: int) -> Iterator[int]:
    """Iterate over the lowest of the places that ``span`` divides into the same whole number."""
    place = places.first()
    while place is not None:
        yield place
        place = next(places.after(place - place % span + span - 1), None)


class ScheduleOrder(SortedKeys[tuple[float, str]]):
    """Schedules by the moment at which each is due next, then by id; those that are never due come last."""

    __slots__ = ()

    @staticmethod
    def place(next_at: float | None, id: str) -> tuple[float, str]:
        return (float("inf") if next_at is None else next_at, id)

    def due(self, now: float, limit: int) -> tuple[list[str], float | None]:
        """Return the ids of what is due, earliest first, and the moment of the one that comes after them."""
        ids: list[str] = []
        for at, id in self:
            if at > now or len(ids) == limit:
                return ids, None if at == float("inf") else at
            ids.append(id)
        return ids, None

    def page(self, cursor: Any, size: int) -> tuple[list[str], object | None]:
        """Return the next ids behind a cursor, None being the head, and the cursor of the page that follows."""
        places = list(islice(self if cursor is None else self.after(cursor), size))
        return [id for _, id in places], places[-1] if len(places) == size else None


class PriorityIndex(Generic[K]):
    """An order for the whole board, and one for each job name."""

    __slots__ = ("by_name", "whole")

    def __init__(self) -> None:
        self.whole: SortedKeys[K] = SortedKeys()
        self.by_name: dict[str, SortedKeys[K]] = {}

    def __len__(self) -> int:
        return len(self.whole)

    def add(self, key: K, name: str) -> None:
        self.whole.add(key)
        order = self.by_name.get(name)
        if order is None:
            order = self.by_name[name] = SortedKeys()
        order.add(key)

    def remove(self, key: K, name: str) -> None:
        self.whole.remove(key)
        order = self.by_name[name]
        order.remove(key)
        if not order._blocks:
            del self.by_name[name]

    def clear(self) -> None:
        self.whole, self.by_name = SortedKeys(), {}

    def has(self, key: K, name: str) -> bool:
        """Whether the key is in both orders."""
        return key in self.whole and name in self.by_name and key in self.by_name[name]

    def orders(self, names: frozenset[str] | None, without: Collection[str | None] = ()) -> list[SortedKeys[K]]:
        """Return the orders that hold the keys of these names (None: of all), but for those of ``without``.

        Asks each name once and no key, whether left out or not.
        """
        by_name = self.by_name
        if names is None:
            if not any(name in by_name for name in without):
                return [self.whole]
            return [order for name, order in by_name.items() if name not in without]
        return [by_name[name] for name in names if name in by_name and name not in without]

    def first(self, names: frozenset[str] | None, without: Collection[str | None] = ()) -> K | None:
        """Return the lowest key of these names, or None."""
        heads = [head for order in self.orders(names, without) if (head := order.first()) is not None]
        return min(heads, default=None)


def numbers_by_name(indexes: Sequence[PriorityIndex[Any]]) -> dict[str, list[int]]:
    """Return for each name how many of its keys are in each of these indexes."""
    counts = [Counter({name: len(order) for name, order in index.by_name.items()}) for index in indexes]
    return {name: [count[name] for count in counts] for name in set().union(*counts)}


def next_ready(
    ready: PriorityIndex[Any],
    timers: PriorityIndex[tuple[float, int]],
    names: frozenset[str] | None,
    paused: Collection[str | None],
    now: float,
) -> float | None:
    """Return the moment at which a job of these names can be claimed, or may be; None if none is in sight.

    :param ready: the jobs that can be claimed now.
    :param timers: those that may be later, by the moment.
    :param paused: the paused names, and None among them if the whole board is.
    """
    if None in paused:
        return None
    if ready.first(names, paused) is not None:
        return now
    first = timers.first(names, paused)
    return None if first is None else first[0]


def walk(orders: list[SortedKeys[K]], after: K | None = None) -> Iterator[K]:
    """Iterate over the keys of several orders in one ascending order, beginning above ``after``."""
    parts = [iter(order) if after is None else order.after(after) for order in orders]
    return parts[0] if len(parts) == 1 else heapq.merge(*parts)
