"""What a board object met of newer formats: told once, and left to those who can read it."""

from __future__ import annotations

import logging
import threading

logger = logging.getLogger("jobboard.board")

#: For how long a claimed job is left to others, in seconds: doubled each time that it is met again.
_FIRST_DELAY, _LONGEST_DELAY = 1.0, 60.0
#: Of so many things at most it is known that they were met.
_MOST = 10_000


class Newer:
    """Remembers what was met; thread-safe.

    A job of a newer format is at the head of the line until somebody reads it. So whoever can't gives it back with a
    delay, finds the others meanwhile, and does not come by again at once.
    """

    def __init__(self, board: str) -> None:
        self._board = board
        self._lock = threading.Lock()
        self._told: set[tuple[str, str]] = set()
        self._delays: dict[str, float] = {}
        #: How often anything was met.
        self.meetings = 0

    def meet(self, what: str, name: str, fault: str) -> None:
        """Say once for each name that something is left alone."""
        with self._lock:
            self.meetings += 1
            if (what, name) in self._told or len(self._told) >= _MOST:
                return
            self._told.add((what, name))
        logger.warning("board %s: %s %r is left to newer clients, upgrade this one: %s", self._board, what, name, fault)

    def delay_of(self, uuid: str) -> float:
        """Return for how many seconds others shall have a job that was met again."""
        with self._lock:
            if uuid not in self._delays and len(self._delays) >= _MOST:
                return _LONGEST_DELAY
            delay = self._delays.get(uuid, _FIRST_DELAY)
            self._delays[uuid] = min(2 * delay, _LONGEST_DELAY)
            return delay
