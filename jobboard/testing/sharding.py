"""Where the cases of the contract post to on a board of shards: by turns, so that none passes by luck."""

from __future__ import annotations

import itertools

from jobboard.backends.shards import ShardsBackend
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.loads import Loads
from jobboard.backends.shards.placement import rendezvous


class TurnsOfLoads(Loads):
    """Lets each posting that can go anywhere go to the next shard."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self._turns = itertools.cycle(range(fleet.count))

    def choose(self) -> int:
        return next(self._turns)


class OneShard(Loads):
    """Lets each posting of a board that can go anywhere go to one shard."""

    def __init__(self, fleet: Fleet, board: str) -> None:
        super().__init__(fleet)
        self._number = rendezvous(board, fleet.count)

    def choose(self) -> int:
        return self._number


def take_turns(backend: ShardsBackend, together: bool) -> ShardsBackend:
    """Return a backend whose postings go to one shard, or to another one each time.

    :param together: ``Harness.together``.
    """
    fleet = backend.fleet
    backend.loads = OneShard(fleet, backend.board) if together else TurnsOfLoads(fleet)
    return backend
