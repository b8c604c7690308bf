"""The conductor among the participants that operators can see, alive or gone."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from jobboard.board import JobBoard
from jobboard.entity import Entity
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.conductor")

#: One that did not register for this many of its intervals counts as gone.
_MISSED_INTERVALS = 4


class Presence:
    """Registers a conductor again and again, so that a dead one is seen to be gone.

    :param metadata: returns what operators see of it.
    :param interval: seconds between two registrations.
    """

    def __init__(self, board: JobBoard, who: str, metadata: Callable[[], dict[str, Any]], interval: float) -> None:
        self._board = board
        self._who = who
        self._metadata = metadata
        self._interval = interval
        self._due_at = 0.0

    def _entity(self) -> Entity:
        return Entity("conductor", self._who, self._metadata(), ttl=self._interval * _MISSED_INTERVALS)

    def register_when_due(self) -> None:
        """Say that it is alive, unless it said so just now; an absent store is told the next time."""
        now = time.monotonic()
        if now < self._due_at:
            return
        self._due_at = now + self._interval
        try:
            self._board.register_entity(self._entity())
        except BoardUnavailable as error:
            logger.debug("conductor %s can't register: %s", self._who, error)

    def leave(self) -> None:
        """Stopped in good order: be seen no more."""
        try:
            self._board.remove_entity(self._entity())
        except BoardUnavailable as error:
            logger.debug("conductor %s can't leave the register: %s", self._who, error)
