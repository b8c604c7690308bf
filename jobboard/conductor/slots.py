"""The slots of a conductor: how many handlers may run at a time."""

from __future__ import annotations

import threading


class Slots:
    """Counts what is free; one thread takes, any may free."""

    def __init__(self, number: int) -> None:
        self._lock = threading.Condition()
        self._number = number
        self._taken = 0
        self._interrupted = False

    @property
    def taken(self) -> int:
        return self._taken

    def wait_for_some(self) -> int:
        """Block until a slot is free, and return how many are; 0 once interrupted."""
        with self._lock:
            self._lock.wait_for(lambda: self._interrupted or self._taken < self._number)
            return 0 if self._interrupted else self._number - self._taken

    def wait_until_free(self, timeout: float | None) -> bool:
        """Block until all slots are free; False after ``timeout`` seconds."""
        with self._lock:
            return self._lock.wait_for(lambda: self._taken == 0, timeout)

    def take(self) -> None:
        with self._lock:
            self._taken += 1

    def free(self) -> None:
        with self._lock:
            self._taken -= 1
            self._lock.notify_all()

    def interrupt(self) -> None:
        with self._lock:
            self._interrupted = True
            self._lock.notify_all()
