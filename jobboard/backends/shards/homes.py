"""Which shards the owners of a client look at first: a hint, so that the owners of all clients share them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.placement import MAX_HOMES, homes

#: Of so many claims one begins with the next shard of all, so that none waits for good, and one with a home.
_ROUND, _TURN_OF_OTHERS, _TURN_OF_HOMES = 4, 0, 2

#: Seconds between two looks of a waiter at a shard that it does not wait on; each look is one request to one shard.
LOOK_INTERVAL = 1.1

#: How often a second all waiters together look at a shard at most.
_LOOKS_AT_A_SHARD = 8.0


#: Of those who wait on a shard the first wakes when a job gets due there, the others later by their rank squared times
#: this, in seconds: whoever claims first makes all ready that are due, and each of these jobs wakes somebody. At most.
_RANK_DELAY, _MAX_RANK_DELAY = 0.02, 1.0


@dataclass(frozen=True, slots=True)
class _Share:
    """The homes of an owner, how many share the work, and how many wait on its homes before it does."""

    homes: list[int]
    owners: int
    rank: int = 0


class Homes:
    """Until an owner knows who else is there, all shards are alike to it."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._of: dict[str, _Share] = {}
        self._turn = itertools.count(fleet.random.randrange(_ROUND * len(fleet.served)))
        #: What waiters go by as long as nothing is known.
        self._any = _Share(fleet.random.sample(fleet.served, min(MAX_HOMES, len(fleet.served))), 1)

    def are_known_to(self, who: str) -> bool:
        """Whether an owner knows its homes."""
        return who in self._of

    def learn(self, who: str, everybody: Collection[str]) -> None:
        """Learn who shares the work with an owner."""
        served = self._fleet.served
        places, rank = homes(who, everybody, len(served))
        self._of[who] = _Share([served[place] for place in places], len(everybody), rank)

    def forget(self, who: str) -> None:
        """An owner has left."""
        self._of.pop(who, None)

    def has(self, who: str, number: int) -> bool:
        """Whether a shard is a home of this owner."""
        share = self._of.get(who)
        return share is not None and number in share.homes

    # -- waiting ---------------------------------------------------------------------------------------------------

    @property
    def _share(self) -> _Share:
        return next(iter(self._of.values()), self._any)

    def waited_on(self) -> list[int]:
        """Return the shards that a waiter waits on."""
        return self._share.homes

    @property
    def owners(self) -> int:
        """How many share the work."""
        return self._share.owners

    @property
    def rank_delay(self) -> float:
        """Return for how many seconds a waiter leaves jobs that get due to others."""
        return min(_MAX_RANK_DELAY, _RANK_DELAY * self._share.rank**2)

    @property
    def look_interval(self) -> float:
        """Return the seconds between two looks at the others."""
        share = self._share
        return max(LOOK_INTERVAL, share.owners / (_LOOKS_AT_A_SHARD * len(self._fleet.served)))

    def looks(self) -> Iterator[int]:
        """Yield the places of the shards to look at from now on, without end.

        By the clock, so that no two owners look at one.
        """
        return itertools.count(self._share.homes[0] + int(time.time() / self.look_interval))

    # -- claims ----------------------------------------------------------------------------------------------------

    def order(self, who: str, seen: Sequence[int], rich: int | None = None) -> Iterator[int]:
        """Yield the shards that a claim asks, one after the other.

        :param seen: where there are jobs to claim, as far as anybody knows.
        :param rich: where a claim has got all that it asked for.
        """
        turn, is_down, asked = next(self._turn), self._fleet.health.is_down, set[int]()
        for number in self._preferred(who, turn, seen, rich):
            if number is not None and number not in asked and not is_down(number):
                asked.add(number)
                yield number
        if not asked:
            yield from self._fleet.served

    def _preferred(self, who: str, turn: int, seen: Sequence[int], rich: int | None) -> Iterable[int | None]:
        share = self._of.get(who)
        if share is None:
            return itertools.chain(seen, (rich,), self._everywhere(turn))
        rounds, at = divmod(turn, _ROUND)
        own = [share.homes[(rounds + step) % len(share.homes)] for step in range(len(share.homes))]
        others = self._everywhere(rounds)
        first = next(others) if at == _TURN_OF_OTHERS else own[0] if at == _TURN_OF_HOMES else None
        return itertools.chain(seen, (first, rich), own, others)

    def _everywhere(self, first: int) -> Iterator[int]:
        """Yield all shards once."""
        served = self._fleet.served
        return (served[(first + step) % len(served)] for step in range(len(served)))
