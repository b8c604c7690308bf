"""Somebody who is told of events."""

from __future__ import annotations

import logging
from collections.abc import Callable

from jobboard.events import EventKind, JobEvent

logger = logging.getLogger("jobboard.backends.listeners")


class Listener:
    """Hears of the events of some kinds; a fault of its own is logged, and keeps nobody else from hearing.

    :param tell: is called with each event.
    """

    def __init__(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> None:
        self._tell = tell
        self.kinds = kinds

    def hear(self, event: JobEvent) -> None:
        if event.kind not in self.kinds:
            return
        try:
            self._tell(event)
        except Exception:
            logger.exception("a listener failed on %s", event.kind)
