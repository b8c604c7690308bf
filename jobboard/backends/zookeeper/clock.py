"""The server's clock, as a client estimates it: every write is answered by the moment at which it was made."""

from __future__ import annotations

import threading
import time

#: By how much the clocks of two hosts may drift apart in each second; NTP slews a clock by half as much.
_DRIFT = 0.001


class Clock:
    """Knows the leader's clock from the stats of writes, to the time of one request.

    A request that was sent at *a* and answered at *b* was made between them, so that the middle is wrong by half of
    ``b - a`` at most. A look counts until a later one is closer, since clocks drift apart, or contradicts it: then the
    server's clock was set, or another server leads.

    What is due is judged by the earliest moment that the clock may show, and what is to last for some seconds ends that
    long after the latest. So of two clients none takes early what the other made, however slow their requests are.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offset = time.time() - time.monotonic()
        self._error = float("inf")
        self._seen = 0.0
        self._latest = float("-inf")

    def now(self) -> float:
        """Return the earliest moment that it may be; never an earlier one than before, unless the clock was set."""
        with self._lock:
            self._latest = max(self._latest, time.monotonic() + self._offset - self._known_error)
            return self._latest

    @property
    def slack(self) -> float:
        """By how many seconds it may be later than :meth:`now`."""
        now = self.now()
        with self._lock:
            return max(0.0, time.monotonic() + self._offset + self._known_error - now)

    @property
    def _known_error(self) -> float:
        # A client that has written nothing yet judges nothing.
        return 0.0 if self._error == float("inf") else self._error

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
