"""The newest events of a board, while somebody looks at them; of bounded size."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from jobboard.board import JobBoard
from jobboard.events import FREQUENT, EventKind, JobEvent

#: How many events are kept, and how many characters of each reason.
MAX_EVENTS, _MAX_REASON = 1000, 300
#: Seconds after which a log that nobody reads stops listening.
_IDLE_TTL = 300.0
#: Which kinds are kept.
KINDS = [kind for kind in EventKind if kind not in FREQUENT]


class EventLog:
    """Listens from the first reader on until nobody has read for five minutes."""

    def __init__(self, board: JobBoard) -> None:
        self._board = board
        self._events: deque[JobEvent] = deque(maxlen=MAX_EVENTS)
        self._lock = threading.Lock()
        self._unsubscribe: Callable[[], None] | None = None
        self._read_at = 0.0
        #: How many came since it listens.
        self.total = 0

    def read(self) -> list[JobEvent]:
        """Return what is known, newest first.

        :raises BoardUnavailable: the store can't be reached.
        """
        self._read_at = time.monotonic()
        with self._lock:
            if self._unsubscribe is None:
                self._events.clear()
                self.total = 0
                self._unsubscribe = self._board.subscribe(self._add, KINDS)
            return list(reversed(self._events))

    def _add(self, event: JobEvent) -> None:
        if time.monotonic() - self._read_at > _IDLE_TTL:
            self.close()
            return
        if event.reason is not None and len(event.reason) > _MAX_REASON:
            event = replace(event, reason=event.reason[:_MAX_REASON] + "…")
        with self._lock:
            self._events.append(event)
            self.total += 1

    def close(self) -> None:
        """Stop listening. Idempotent."""
        with self._lock:
            unsubscribe, self._unsubscribe = self._unsubscribe, None
        if unsubscribe is not None:
            unsubscribe()
