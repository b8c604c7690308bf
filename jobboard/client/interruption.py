"""Ends a wait from another thread."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Interruption:
    """Interrupts what blocks, now or later; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._interrupt: Callable[[], None] | None = None
        self.has_come = False

    def will_call(self, interrupt: Callable[[], None]) -> None:
        """Name what ends the wait; it is called at once if the interruption has come before."""
        with self._lock:
            self._interrupt = interrupt
            if self.has_come:
                interrupt()

    def come(self) -> None:
        """End the wait."""
        with self._lock:
            self.has_come = True
            if self._interrupt is not None:
                self._interrupt()
