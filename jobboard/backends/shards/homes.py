"""Which shards the owners of a client look at first: a hint, so that the owners of all clients share them."""

from __future__ import annotations

import itertools
from collections.abc import Collection

from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.placement import homes

#: How many shards an owner has for homes at most, and how many a waiter waits on.
MAX_HOMES = 4

#: Of so many claims one begins with a shard that is no home, so that no shard waits for good.
_TURNS_TO_OTHERS = 4

#: With how many others an owner compares itself.
_MAX_OTHERS = 200


class Homes:
    """Until an owner knows who else is there, all shards are alike to it."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._of: dict[str, list[int]] = {}
        self._turn = itertools.count(fleet.choose.randrange(fleet.count))
        #: What waiters wait on as long as nothing is known.
        self._any = fleet.choose.sample(range(fleet.count), min(MAX_HOMES, fleet.count))

    def are_known_to(self, who: str) -> bool:
        """Whether an owner knows its homes."""
        return who in self._of

    def learn(self, who: str, everybody: Collection[str]) -> None:
        """Learn who shares the work with an owner."""
        others = list(everybody)
        if len(others) > _MAX_OTHERS:
            others = self._fleet.choose.sample(others, _MAX_OTHERS)
        self._of[who] = homes(who, others, self._fleet.count)

    def forget(self, who: str) -> None:
        """An owner has left."""
        self._of.pop(who, None)

    def waited_on(self) -> list[int]:
        """Return the shards that a waiter waits on."""
        known = next(iter(self._of.values()), None)
        return self._any if known is None else known[:MAX_HOMES]

    def order(self, who: str, seen: int | None) -> list[int]:
        """Return the shards that a claim asks, one after the other.

        :param seen: where there is a job to claim, as far as anybody knows.
        """
        able, turn = set(self._fleet.health.able()), next(self._turn)
        everywhere = [(turn + step) % self._fleet.count for step in range(self._fleet.count)]
        own = self._of.get(who, [])[:MAX_HOMES] if turn % _TURNS_TO_OTHERS else []
        first = turn % len(own) if own else 0
        order = [*([] if seen is None else [seen]), *own[first:], *own[:first], *everywhere]
        return [number for number in dict.fromkeys(order) if number in able]
