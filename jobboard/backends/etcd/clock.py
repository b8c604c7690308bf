"""The server's clock, as the dates of its replies show it."""

from __future__ import annotations

import functools
import os
from email.utils import parsedate_to_datetime

from jobboard.backends.kv.clock import ServerClock

#: A clock that is known to this many seconds is known well enough.
_CLOSE = 0.02


class ReplyClock(ServerClock):
    """The clock of one server, by the ``Date`` of its replies, which is cut off to whole seconds."""

    def learn_date(self, date: str | None, sent: float, received: float) -> None:
        """Take in the date of a reply that was made between these moments of the monotonic clock."""
        second = _second_of(date) if date else None
        if second is not None:
            self.learn(second, 1.0, sent, received)

    def probe_in(self) -> float | None:
        """Return in how many seconds a reply tells most about the time; None if enough is known."""
        at = self._clock()
        least, most, _ = self._known.at_moment(at)
        if not self.is_known or most - least <= _CLOSE:
            return None
        # A reply at the moment at which the next second begins, if the time is midway between the bounds, halves them.
        return -(at + (least + most) / 2) % 1.0


#: By process: a forked one must not wait for a lock that a thread of its parent had.
_clocks: dict[tuple[int, str, int], ReplyClock] = {}


def clock_of(host: str, port: int) -> ReplyClock:
    """Return the clock of a server; all clients in this process share what they know of it."""
    return _clocks.setdefault((os.getpid(), host, port), ReplyClock())


@functools.lru_cache(maxsize=16)
def _second_of(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
