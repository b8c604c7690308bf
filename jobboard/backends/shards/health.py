"""Which shards did not answer lately, as far as one client knows."""

from __future__ import annotations

import time
from collections.abc import Sequence

#: For how many seconds a shard that failed is left alone: the first time, and at most.
FIRST_PAUSE, MAX_PAUSE = 1.0, 10.0


class Health:
    """What failed is left alone for a while, longer each time; whoever asks it next finds out whether it is back.

    Only what may go elsewhere goes by this. It has no lock: at worst, two threads ask at once.
    """

    def __init__(self) -> None:
        #: Of each shard that is down, until when it is left alone, and for how long.
        self._down: dict[int, tuple[float, float]] = {}
        #: Those of :attr:`.Fleet.served`; the others count as down for good.
        self.served: frozenset[int] = frozenset()

    def reset(self) -> None:
        """Forget all failures: the board was opened anew."""
        self._down.clear()

    def failed(self, number: int) -> None:
        """Learn that a shard did not answer."""
        now = time.monotonic()
        until, pause = self._down.get(number, (now, FIRST_PAUSE / 2))
        if until <= now:
            # Failures of one moment count once.
            pause = min(2 * pause, MAX_PAUSE)
            self._down[number] = now + pause, pause

    def answered(self, number: int) -> None:
        """Learn that it did."""
        if self._down:
            self._down.pop(number, None)

    def is_down(self, number: int) -> bool:
        """Whether a shard is not to be asked now."""
        if number not in self.served:
            return True
        down = self._down.get(number)
        return down is not None and time.monotonic() < down[0]

    def is_doubtful(self, number: int) -> bool:
        """Whether it did not answer the last time."""
        return number in self._down or number not in self.served

    def doubtful(self) -> list[int]:
        """Return the shards that did not answer the last time."""
        return sorted(self._down)

    def sound(self, some: Sequence[int]) -> Sequence[int]:
        """Return those of some shards that answered the last time; all of them if none did."""
        return [number for number in some if number not in self._down] or some if self._down else some

    def able(self) -> list[int]:
        """Return the shards to ask, in their order; all of them if each is down."""
        served = sorted(self.served)
        return [number for number in served if not self.is_down(number)] or served
