"""Whether to wait for a job, on servers: one look, which begins at the floors."""

from __future__ import annotations

import abc
import math
from typing import NamedTuple

from jobboard.backends.sql.floors import Look
from jobboard.backends.sql.reading import RECHECK_DELAY, Reading, no_later_than_exchange
from jobboard.backends.sql.server_database import ServerDatabase


class Found(NamedTuple):
    """What a look whether to wait has found."""

    #: The server's time.
    now: float
    #: The board's mark.
    mark: str | None
    #: When the first job or mark is due.
    due_at: float | None
    #: Whether all is paused, or anything else makes this look say too little.
    is_barred: bool
    is_any_blocked: bool
    is_any_ready: bool


class ServerReading(Reading):
    """Says by one request how long to wait, where nothing is due or paused."""

    _transactions: ServerDatabase

    @abc.abstractmethod
    def _look(self, look: Look) -> Found:
        """Look for what is ready and for what is due next, from the floors on."""

    def ready_in(self, names: frozenset[str] | None) -> float | None:
        floors = self._transactions.floors
        look = floors.look_to_wait(names)
        found = self._look(look)
        if found.is_barred or (found.due_at is not None and found.due_at <= found.now):
            return self.ready_in_by_long_path(names)
        if found.is_any_ready:
            return 0.0
        floors.note(look, found.mark, found.now, [], 1)
        due_in = math.inf if found.due_at is None else found.due_at - found.now
        due_in = min(due_in, look.recheck_in(found.mark))
        wait = None if math.isinf(due_in) else max(RECHECK_DELAY, due_in)
        return no_later_than_exchange(wait) if found.is_any_blocked else wait

    def ready_in_by_long_path(self, names: frozenset[str] | None) -> float | None:
        wait = super().ready_in(names)
        # Its transaction looks for what is due from a floor on.
        recheck_in = max(RECHECK_DELAY, self._transactions.floors.recheck_in())
        return wait if math.isinf(recheck_in) else min(recheck_in, math.inf if wait is None else wait)
