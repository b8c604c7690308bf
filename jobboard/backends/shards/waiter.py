"""Waits on a few shards at once, and looks at the others in turn."""

from __future__ import annotations

import contextvars
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from jobboard.backends.base import Waiter
from jobboard.backends.shards.fleet import Fleet
from jobboard.errors import BoardUnavailable

#: On how many shards a waiter waits at most; it is notified of what happens there.
MAX_WAITED_ON = 4

#: Seconds between two looks at shards that nobody notifies this waiter of; each look is one request to one shard.
LOOK_INTERVAL = 1.0

#: Seconds that a shard's waiter gets to return once it is interrupted.
_END_TIMEOUT = 10.0


class ShardsWaiter(Waiter):
    """Waits on the shards that it is given, at most :data:`MAX_WAITED_ON`; the others are looked at.

    :param waited_on: the numbers of those.
    :param found: is told the number of a shard that has a job to claim.
    """

    def __init__(
        self, fleet: Fleet, waited_on: Sequence[int], names: frozenset[str] | None, found: Callable[[int], None]
    ) -> None:
        self._fleet, self._names, self._found = fleet, names, found
        others = [number for number in range(fleet.count) if number not in waited_on]
        self._others = itertools.cycle(others) if others else None
        #: Where a look has found a job.
        self._seen: int | None = None
        #: Set by an interrupt, and by what one of the shards tells.
        self._woken = threading.Event()
        self._stack = ExitStack()
        with ExitStack() as stack:
            self._waiters = [(number, stack.enter_context(fleet.shards[number].waiter(names))) for number in waited_on]
            self._stack = stack.pop_all()

    def ready_in(self) -> float | None:
        soonest: float | None = None
        for number, waiter in self._waiters:
            seconds = waiter.ready_in()
            if seconds is not None and (soonest is None or seconds < soonest):
                soonest = seconds
                if seconds <= 0:
                    self._found(number)
                    return 0.0
        seen, self._seen = self._seen, None
        if seen is not None and self._has_job(seen):
            self._found(seen)
            return 0.0
        return soonest

    def _has_job(self, number: int) -> bool:
        return bool(self._fleet.shards[number].jobs.claimable(self._names, None, 1).rows)

    def wait(self, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        if len(self._waiters) == 1 and self._others is None:
            self._waiters[0][1].wait(timeout)
            return
        sleepers = [_Sleeper(waiter, timeout, self._woken.set) for _, waiter in self._waiters]
        try:
            for sleeper in sleepers:
                sleeper.start()
            self._sleep(deadline)
        finally:
            self._end(sleepers)
        failure = next((sleeper.failure for sleeper in sleepers if sleeper.failure is not None), None)
        if failure is not None:
            raise failure

    def _sleep(self, deadline: float | None) -> None:
        """Sleep until a shard's waiter returns, somebody interrupts, or a look at another shard finds a job."""
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            pause = left if self._others is None else LOOK_INTERVAL if left is None else min(left, LOOK_INTERVAL)
            if self._woken.wait(pause):
                return
            if self._others is not None and self._look(next(self._others)):
                return

    def _look(self, number: int) -> bool:
        try:
            is_there = self._has_job(number)
        except BoardUnavailable:
            # It is looked at again in its turn.
            return False
        if is_there:
            self._seen = number
        return is_there

    def _end(self, sleepers: Sequence[_Sleeper]) -> None:
        for sleeper in sleepers:
            sleeper.interrupt()
        for sleeper in sleepers:
            sleeper.join(_END_TIMEOUT)
        self._woken.clear()

    def interrupt(self) -> None:
        self._woken.set()
        if len(self._waiters) == 1 and self._others is None:
            self._waiters[0][1].interrupt()

    def close(self) -> None:
        self._stack.close()


class _Sleeper(threading.Thread):
    """Waits on one shard, and tells when that returns."""

    def __init__(self, waiter: Waiter, timeout: float | None, woken: Callable[[], object]) -> None:
        super().__init__(name="jobboard-shard-wait", daemon=True)
        self._waiter, self._timeout, self._told = waiter, timeout, woken
        # The time limit of the call holds for the requests of its threads too.
        self._context = contextvars.copy_context()
        self._has_returned = False
        self.failure: BoardUnavailable | None = None

    def run(self) -> None:
        try:
            self._context.run(self._waiter.wait, self._timeout)
        except BoardUnavailable as error:
            self.failure = error
        finally:
            self._has_returned = True
            self._told()

    def interrupt(self) -> None:
        """Let it return; what has returned by itself is left alone, since its next wait would return at once."""
        if self.is_alive() and not self._has_returned:
            self._waiter.interrupt()

    def join(self, timeout: float | None = None) -> None:
        if self.ident is not None:
            super().join(timeout)
