"""The server's clock, as a client estimates it: every write is answered by the moment at which it was made."""

from __future__ import annotations

import threading
import time

#: By how much the clocks of two hosts may drift apart in each second; NTP slews a clock by half as much.
_DRIFT = 0.001


class Clock:
    """Estimates the leader's clock from the stats of writes; wrong by at most the time of one request.

    A request that was sent at *a* and answered at *b* was made between them, so that the middle is wrong by half of
    ``b - a`` at most. A look counts until a later one is closer, since clocks drift apart, or contradicts it: then the
    server's clock was set, or another server leads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offset = time.time() - time.monotonic()
        self._error = float("inf")
        self._seen = 0.0
        self._latest = float("-inf")

    def now(self) -> float:
        """Return the moment; never an earlier one than before, unless the server's clock was set."""
        with self._lock:
            self._latest = max(self._latest, time.monotonic() + self._offset)
            return self._latest

    def learn(self, milliseconds: int, sent: float, answered: float) -> None:
        """Learn that the server's clock showed this at some moment between the two of this process's clock."""
        # It shows whole milliseconds, cut off.
        moment, error = milliseconds / 1000 + 0.0005, (answered - sent) / 2 + 0.0005
        offset = moment - (sent + answered) / 2
        with self._lock:
            known = self._error + max(0.0, answered - self._seen) * _DRIFT
            is_contradicted = abs(offset - self._offset) > error + known
            if is_contradicted or self._error == float("inf"):
                self._latest = float("-inf")
            if error <= known or is_contradicted:
                self._offset, self._error, self._seen = offset, error, answered
