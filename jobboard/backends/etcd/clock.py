"""The server's clock, as its replies show it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import NamedTuple

#: By how much the clocks of two hosts may drift apart in each second; NTP slews a clock by half as much.
_DRIFT = 0.001

#: A clock that is known to this many seconds is known well enough.
_CLOSE = 0.02


class Bounds(NamedTuple):
    """By how many seconds the server's clock is ahead of the monotonic clock, as known at the moment ``at``."""

    least: float
    most: float
    at: float


class ServerClock:
    """The wall clock of one server, measured by this host's monotonic clock: no step of a client's wall clock counts.

    The ``Date`` of a reply is cut to whole seconds, so each reply gives a lower and an upper bound of the server's
    time. Every reply brings the bounds closer together, and they widen while none comes. :meth:`earliest` decides what
    must not happen too early, and what is to last for some seconds ends that long after :meth:`latest`. So no client
    ends another's claim too early, however little it knows of the server's time; it may end it too late by as much.

    :param clock: tells the monotonic time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Replaced as a whole, without a lock: of two replies at once one may be lost, which costs nothing.
        self._known = Bounds(-float("inf"), float("inf"), 0.0)

    @property
    def is_known(self) -> bool:
        """Whether any reply had the time."""
        return self._known.least > -float("inf")

    def earliest(self) -> float:
        """Return the moment, in seconds since the epoch, that the server's clock has certainly reached."""
        at = self._clock()
        return at + self._bounds_at(at).least

    def latest(self) -> float:
        """Return the moment that the server's clock has certainly not passed."""
        at = self._clock()
        return at + self._bounds_at(at).most

    def learn(self, date: str | None, sent: float, received: float) -> None:
        """Take in the date of a reply that was made between these moments of the monotonic clock."""
        second = _second_of(date) if date else None
        if second is None:
            return
        least, most = second - received, second + 1.0 - sent
        known = self._bounds_at(received)
        if least <= known.most and known.least <= most:
            least, most = max(least, known.least), min(most, known.most)
        # Otherwise the server's clock was set, and the former bounds are wrong.
        self._known = Bounds(least, most, received)

    def probe_in(self) -> float | None:
        """Return in how many seconds a reply tells most about the time; None if enough is known."""
        at = self._clock()
        least, most, _ = self._bounds_at(at)
        if not self.is_known or most - least <= _CLOSE:
            return None
        # A reply at the moment at which the next second begins, if the time is midway between the bounds, halves them.
        return -(at + (least + most) / 2) % 1.0

    def _bounds_at(self, moment: float) -> Bounds:
        least, most, at = self._known
        slack = max(0.0, moment - at) * _DRIFT
        return Bounds(least - slack, most + slack, moment)


_clocks: dict[tuple[str, int], ServerClock] = {}


def clock_of(host: str, port: int) -> ServerClock:
    """Return the clock of a server; all clients in this process share what they know of it."""
    return _clocks.setdefault((host, port), ServerClock())


@functools.lru_cache(maxsize=16)
def _second_of(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
