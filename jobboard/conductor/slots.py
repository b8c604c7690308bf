"""The slots of a conductor: how many handlers may run at a time, and how far their ends may fall behind."""

from __future__ import annotations

import threading
import time


class Slots:
    """Counts running handlers, and claims whose end is still to be sent; one thread claims, any may free.

    A slot is free again when its handler has ended, so that the next one runs while the end is on its way. But no
    more is claimed while that leaves too many ends unsent.
    """

    def __init__(self, number: int) -> None:
        self._lock = threading.Condition()
        self._number = number
        self._most_held = 2 * number + 16
        self._taken = 0
        self._held = 0
        self._stuck = 0
        self._lost = 0
        self._interrupted = False
        self._idle = False
        self._drain_until = float("inf")

    @property
    def taken(self) -> int:
        """How many slots run handlers whose claims hold, or may still return in time."""
        return self._taken - self._stuck

    def stuck(self, number: int, replaced: int) -> None:
        """So many of the handlers that were begun are stuck, and so many of these have a new slot in their place."""
        with self._lock:
            self._stuck = number
            self._lost = number - replaced
            self._lock.notify_all()

    def wait_for_some(self) -> int:
        """Block until a slot is free, and return how many are; 0 once interrupted."""
        with self._lock:
            self._lock.wait_for(lambda: self._interrupted or self._free() > 0)
            return 0 if self._interrupted else self._free()

    def _free(self) -> int:
        return min(self._number - self._lost - self.taken, self._most_held - self._held)

    def idle(self, idle: bool) -> None:
        """The claimer found nothing to claim, and waits; or it is back."""
        with self._lock:
            self._idle = idle
            self._lock.notify_all()

    def give_way(self, timeout: float) -> None:
        """Block while the claimer has a slot to fill: who waits for work comes first, and ends gather meanwhile."""
        with self._lock:
            self._lock.wait_for(lambda: self._idle or self._interrupted or self._free() <= 0, timeout)

    def take(self) -> None:
        """A claimed job goes into a slot."""
        with self._lock:
            self._taken += 1
            self._held += 1
            if self._free() <= 0:
                self._lock.notify_all()

    def hold(self) -> None:
        """A claimed job is to be ended without having run."""
        with self._lock:
            self._held += 1

    def free(self) -> None:
        """A handler has ended."""
        with self._lock:
            self._taken -= 1
            self._lock.notify_all()

    def let_go(self) -> None:
        """A claim has ended."""
        with self._lock:
            self._held -= 1
            self._lock.notify_all()

    def interrupt(self) -> None:
        """Hand out no more slots."""
        with self._lock:
            self._interrupted = True
            self._lock.notify_all()

    def drain_until(self, deadline: float) -> None:
        """Let nobody wait for running handlers beyond this moment of the monotonic clock; the soonest one counts."""
        with self._lock:
            self._drain_until = min(self._drain_until, deadline)
            self._lock.notify_all()

    def wait_until_free(self) -> bool:
        """Block until all slots are free but for stuck ones; False if that took too long."""
        with self._lock:
            while self.taken > 0 and (left := self._drain_until - time.monotonic()) > 0:
                self._lock.wait(min(left, threading.TIMEOUT_MAX))
            return self.taken == 0

    def wait_until_let_go(self, timeout: float) -> bool:
        """Block until every claim has ended; False after ``timeout`` seconds."""
        with self._lock:
            return self._lock.wait_for(lambda: self._held == 0, timeout)
