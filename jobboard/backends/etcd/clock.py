"""The server's clock, as far as its replies tell."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime


class ServerClock:
    """The wall clock of the server that answers, read off the ``Date`` of every reply.

    That date is cut to whole seconds, so each reply bounds the offset of this client's clock from both sides, and
    the bounds close in with every reply. Within them the offset nearest to none is taken: clocks that agree to the
    second are used as they are, and one that is off by minutes is put right with its first reply.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._least, self._most = -float("inf"), float("inf")
        self._date, self._second = "", 0.0

    def now(self) -> float:
        """Return the server's time in seconds since the epoch; no request."""
        return self._clock() + self.offset

    @property
    def offset(self) -> float:
        """The seconds by which the server is ahead."""
        return min(max(0.0, self._least), self._most)

    def learn(self, date: str | None, took: float) -> None:
        """Take in the date of a reply that has just come, so many seconds after its request was sent."""
        if not date:
            return
        received = self._clock()
        sent = received - took
        with self._lock:
            if date != self._date:
                try:
                    self._date, self._second = date, parsedate_to_datetime(date).timestamp()
                except ValueError:
                    return
            least, most = self._second - received, self._second + 1.0 - sent
            if least > self._most or most < self._least:
                # One of the clocks was set, or another server answers: what was known holds no more.
                self._least, self._most = least, most
            else:
                self._least, self._most = max(least, self._least), min(most, self._most)
