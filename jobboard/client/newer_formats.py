"""What one board object met of newer formats: logged once, and left to those who can read it."""

from __future__ import annotations

import logging
import threading

logger = logging.getLogger("jobboard.board")

#: For how long a claimed job is left to others, in seconds: doubled each time that it is met again.
_FIRST_DELAY, _MAX_DELAY = 1.0, 60.0
#: How many names and jobs are remembered.
_MAX_REMEMBERED = 10_000


class NewerFormats:
    """Remembers what was met; thread-safe.

    A job of a newer format is the first of its queue until somebody reads it. A client that can't read it returns it
    with a delay. So it finds the jobs behind it, and does not claim the same one again at once.
    """

    def __init__(self, board: str) -> None:
        self._board = board
        self._lock = threading.Lock()
        self._logged: set[tuple[str, str]] = set()
        self._delays: dict[str, float] = {}
        #: How often anything was met.
        self.meetings = 0

    def meet(self, what: str, name: str, fault: str) -> None:
        """Log once for each name that something is left alone."""
        with self._lock:
            self.meetings += 1
            if (what, name) in self._logged or len(self._logged) >= _MAX_REMEMBERED:
                return
            self._logged.add((what, name))
        logger.warning("board %s: %s %r is left to newer clients, upgrade this one: %s", self._board, what, name, fault)

    def delay_of(self, uuid: str) -> float:
        """Return for how many seconds a job that was met again is left to others."""
        with self._lock:
            if uuid not in self._delays and len(self._delays) >= _MAX_REMEMBERED:
                return _MAX_DELAY
            delay = self._delays.get(uuid, _FIRST_DELAY)
            self._delays[uuid] = min(2 * delay, _MAX_DELAY)
            return delay
