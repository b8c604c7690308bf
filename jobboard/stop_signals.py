"""The signals that ask a program to stop: in good order, and by a second one at once."""

from __future__ import annotations

import signal
import time

#: Seconds for which a SIGTERM after the first one is a copy of it: GNU ``timeout`` signals its child, and then the
#: group that its child is in.
COPIES_WITHIN = 0.5


class StopSignals:
    """The signals to stop that a program has got."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self._first_at = 0.0

    def add(self, number: int) -> bool:
        """Note a signal, and return whether it ends the program at once."""
        self.seen.append(number)
        if len(self.seen) == 1:
            self._first_at = time.monotonic()
            return False
        if number == self.seen[0] == signal.SIGTERM and time.monotonic() - self._first_at < COPIES_WITHIN:
            return False
        # A terminal that closes may send several of these.
        return number != signal.SIGHUP
