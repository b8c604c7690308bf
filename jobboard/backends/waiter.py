"""A waiter that sleeps until a job may be ready, or until a change notifies it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from jobboard.backends.base import Waiter
from jobboard.backends.lanes import EXCHANGE_POLL
from jobboard.errors import BoardUnavailable


class ConditionWaiter(Waiter):
    """Sleeps until the earliest moment at which a job may be ready, as far as it was told.

    A store's own waiter says in ``ready_in`` how it asks the store, and in ``close`` what it lets go of.

    :param names: whom it concerns; None: every name.
    :param clock: tells the store's time, in seconds, in which moments are given.
    :param longest: after this many seconds of sleep it asks the store again: what a lost notification can cost.
    :param lock: guards the moment; a notifier may hold it already if it is reentrant.
    """

    def __init__(
        self,
        names: frozenset[str] | None,
        clock: Callable[[], float],
        longest: float = math.inf,
        lock: threading.RLock | None = None,
    ) -> None:
        self._names = names
        self._clock = clock
        self._longest = longest
        # With a condition, `with` calls a function of Python for its lock, once to enter and once to leave; what a
        # signal's handler raises there may leave the lock taken. So the locks of conditions have names of their own.
        self._lock = threading.RLock() if lock is None else lock
        self._changed = threading.Condition(self._lock)
        #: No job is ready before this moment; -inf says that nobody has asked yet.
        self._earliest = -math.inf
        self._interrupted = False
        self._is_closed = False

    def _begin_to_look(self) -> None:
        """Forget the moment; a notification that comes while the store is asked still counts."""
        self._check()
        with self._lock:
            self._earliest = math.inf

    def _expect(self, at: float) -> None:
        """Learn from the store that a job may be ready at that moment."""
        with self._lock:
            self._earliest = min(self._earliest, at)

    def wait(self, timeout: float | None) -> None:
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not self._sleep(deadline):
            try:
                self.ready_in()
            except BoardUnavailable:
                # The waiting thread asks the store next, and meets the fault or a change.
                return

    def _sleep(self, deadline: float) -> bool:
        """Return whether there is a reason to wake up; False if nothing was heard for as long as it may sleep."""
        # The store's clock may be set, or another server may lead, while somebody waits.
        longest = time.monotonic() + self._longest
        with self._lock:
            while not self._interrupted:
                self._check()
                until_due, now = self._earliest - self._clock(), time.monotonic()
                if until_due <= 0 or deadline <= now:
                    return True
                if longest <= now:
                    return False
                self._changed.wait(min(until_due, deadline - now, longest - now, threading.TIMEOUT_MAX))
            self._check()
            self._interrupted = False
            return True

    def _check(self) -> None:
        if self._is_closed:
            raise BoardUnavailable("the board was closed while somebody waited on it")

    def notify(self, name: str | None = None, at: float = -math.inf) -> None:
        """Learn that a job of this name (None: any) may be ready at that moment; by default, now."""
        if name is None or self._names is None or name in self._names:
            with self._lock:
                if at < self._earliest:
                    self._earliest = at
                    self._changed.notify_all()

    def notify_of_blocked(self, name: str) -> None:
        """Learn that a job of this name waits for its lane: another name may hold that up, so it is to be asked for."""
        self.notify(name, self._clock() + EXCHANGE_POLL)

    def interrupt(self) -> None:
        with self._lock:
            self._interrupted = True
            self._changed.notify_all()

    def board_closed(self) -> None:
        """Learn that the board was closed."""
        with self._lock:
            self._is_closed = True
            self._changed.notify_all()
