"""What a client knows of the board's shards, and how it keeps up with changes.

Whoever posts goes by a map that was read less than :data:`VALID` seconds ago, also when the request ends. So a command
that has written a map on all shards, and has waited for so long, knows that nobody goes by an older one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from jobboard.backends.shards import table
from jobboard.backends.shards.shard_map import ShardMap
from jobboard.backends.timelimit import is_time_over, time_limit
from jobboard.errors import BoardUnavailable

if TYPE_CHECKING:
    from jobboard.backends.shards.fleet import Fleet

#: Seconds after which a client reads the map again before it posts, and for which it goes by it at most.
REFRESH, VALID = 2.0, 8.0
#: Seconds after which one that only claims does.
REFRESH_OF_CLAIMS = 10.0
#: For how many seconds a posting waits while its key or lane is moved, and how often it looks.
_MAX_WAIT, _POLL = 60.0, 0.25


class Roster:
    """Knows the map, and reads it again in time. It has no lock, which a forked child might never get.

    :ivar is_fixed: whether the shards of the board can't change.
    """

    def __init__(self, fleet: Fleet, board: str, is_fixed: bool) -> None:
        self._fleet, self._board, self.is_fixed = fleet, board, is_fixed
        self._read_at = -math.inf

    def was_read(self, at: float) -> None:
        """Learn that the fleet's map was read, by a request that began at this moment."""
        self._read_at = at

    def fresh(self, most: float | None = None) -> ShardMap:
        """Return the map; it is read again if it is older than so many seconds (:data:`REFRESH`)."""
        if not self.is_fixed and time.monotonic() >= self._read_at + (REFRESH if most is None else most):
            self.refresh()
        return self._fleet.map

    def refresh(self) -> None:
        """Read the map from one shard that answers; a later one than that of this client is learned.

        :raises BoardUnavailable: none does.
        """
        began, fleet = time.monotonic(), self._fleet
        numbers = fleet.health.able()
        fleet.random.shuffle(numbers)
        known = fleet.map
        read = partial(table.read, self._board, known=known)
        for _, entry in fleet.ask_able(numbers, read):
            if entry is not None:
                fleet.learn(entry.map)
                self._read_at = began
                return
        raise BoardUnavailable(f"no shard of board {self._board!r} has its table of shards")

    def limit(self) -> time_limit:
        """Return a limit for a request that goes by the map: it ends while the map counts."""
        return time_limit(math.inf if self.is_fixed else self._read_at + VALID - time.monotonic())

    def places(self, texts: Sequence[str]) -> list[int]:
        """Return where these belong, as soon as none of them is being moved.

        :raises BoardUnavailable: that takes too long.
        """
        map = self.fresh()
        for _ in range(int(_MAX_WAIT / _POLL)):
            if not map.moves(texts):
                return [map.now.place(text) for text in texts]
            if is_time_over():
                break
            self._sleep()
            map = self._fleet.map
        raise BoardUnavailable(
            f"a part of the keys, lanes and schedules of board {self._board!r} is being moved to other shards; "
            "if nobody runs 'jobboard shards' any more, repeat the command that was interrupted"
        )

    def _sleep(self) -> None:
        time.sleep(_POLL)
        self.refresh()

    def lead(self) -> int:
        """Return the shard that decides about limits, as soon as it is not about to leave.

        :raises BoardUnavailable: that takes too long.
        """
        map = self.fresh()
        for _ in range(int(_MAX_WAIT / _POLL)):
            if map.following is None or map.following.present[0] == map.now.present[0]:
                break
            self._sleep()
            map = self._fleet.map
        return map.now.present[0]
