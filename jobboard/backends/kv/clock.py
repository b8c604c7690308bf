"""A server's clock, measured by this host's monotonic clock: no step of a client's wall clock counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

#: By how much the clocks of two hosts may drift apart in each second; NTP slews a clock by half as much.
_DRIFT = 0.001


class Bounds(NamedTuple):
    """By how many seconds the server's clock is ahead of the monotonic clock, as known at the moment ``at``."""

    least: float
    most: float
    at: float

    def at_moment(self, moment: float) -> Bounds:
        """Return the bounds as they are known at a later moment."""
        slack = max(0.0, moment - self.at) * _DRIFT
        return Bounds(self.least - slack, self.most + slack, moment)


class ServerClock:
    """The clock of a server whose answers tell the time: each gives a lower and an upper bound of it.

    Every answer brings the bounds closer together, and they widen while none comes. :meth:`now` decides what must not
    happen too early, and what is to last for some seconds ends that long after :meth:`latest`. So no client ends
    another's claim too early, however little it knows of the server's time; it may end it too late by as much.

    :param clock: tells the monotonic time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Of two answers at once none may be lost: the time would go back to what was known before it.
        self._lock = threading.Lock()
        self._known = Bounds(-float("inf"), float("inf"), 0.0)

    @property
    def is_known(self) -> bool:
        """Whether any answer told the time."""
        return self._known.least > -float("inf")

    def now(self) -> float:
        """Return the moment, in seconds since the epoch, that the server's clock has certainly reached.

        Never an earlier one than before, unless that clock was set.
        """
        at = self._clock()
        return at + self._known.at_moment(at).least

    def latest(self) -> float:
        """Return the moment that the server's clock has certainly not passed."""
        at = self._clock()
        return at + self._known.at_moment(at).most

    @property
    def slack(self) -> float:
        """By how many seconds the server's clock may be ahead of :meth:`now`."""
        least, most, _ = self._known.at_moment(self._clock())
        return most - least

    def learn(self, shown: float, precision: float, sent: float, received: float) -> None:
        """Learn from an answer that was made between two moments of the monotonic clock.

        :param shown: the time in the answer, cut off to whole multiples of ``precision`` seconds.
        """
        shows = Bounds(shown - received, shown + precision - sent, received)
        with self._lock:
            # Another answer, which came later, may have been learnt before.
            at = max(received, self._known.at)
            least, most, _ = shows.at_moment(at)
            known = self._known.at_moment(at)
            if least <= known.most and known.least <= most:
                least, most = max(least, known.least), min(most, known.most)
            # Otherwise the server's clock was set, or another server answers, and the former bounds are wrong.
            self._known = Bounds(least, most, at)
