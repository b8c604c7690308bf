"""A listener of a board: each shard tells it, one that was absent from its return on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from jobboard.backends.base import Backend
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.shares import SLOT_MOVED
from jobboard.events import EventKind, JobEvent

#: The events of what is done to all shards.
_OF_BOARD = frozenset({EventKind.PAUSED, EventKind.RESUMED, EventKind.LIMITED})


class Listening:
    """Is told by one shard at a time. What is done to the whole board happens on each shard, and is told once."""

    def __init__(self, fleet: Fleet, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> None:
        self._fleet, self._tell, self._kinds = fleet, tell, kinds
        self._telling, self._beginning = threading.RLock(), threading.RLock()
        self._begun: set[int] = set()
        self._ends = ExitStack()
        self._is_over = False

    def begin(self, number: int, shard: Backend) -> None:
        """Let a shard tell; at once done if it does, or if the listener has left."""
        with self._beginning:
            if number not in self._begun and not self._is_over:
                self._ends.callback(shard.listen(partial(self._tell_one_at_a_time, number), self._kinds))
                self._begun.add(number)

    def _tell_one_at_a_time(self, number: int, event: JobEvent) -> None:
        if event.kind in _OF_BOARD and (number != self._fleet.present[0] or event.reason == SLOT_MOVED):
            return
        with self._telling:
            self._tell(event)

    def end(self) -> None:
        """Let no shard tell any more."""
        with self._beginning:
            self._is_over = True
        self._ends.close()
