"""Waits on a few shards at once, and looks at the others in turn."""

from __future__ import annotations

import contextvars
import itertools
import math
import threading
import time
from collections.abc import Callable, Collection, Iterator

from jobboard.backends.base import Waiter
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.homes import Homes
from jobboard.backends.shards.placement import MAX_HOMES
from jobboard.backends.shards.turns import Turns
from jobboard.errors import BoardUnavailable

#: Seconds that a shard's waiter gets to return once it is interrupted.
_END_TIMEOUT = 10.0


class ShardsWaiter(Waiter):
    """Waits on the homes of this client's owners; the other shards are looked at.

    :param found: is told the number of a shard that has a job to claim.
    """

    def __init__(
        self, fleet: Fleet, homes: Homes, names: frozenset[str] | None, found: Callable[[int], None], turns: Turns
    ) -> None:
        self._fleet, self._homes, self._names, self._found, self._turns = fleet, homes, names, found, turns
        #: The places to look at next, and the homes that they begin from.
        self._looks: Iterator[int] = iter(())
        self._looks_from: list[int] = []
        #: Where a look has found a job.
        self._seen: int | None = None
        #: Set by an interrupt, and by what one of the shards tells.
        self._woken = threading.Event()
        self._waiters: dict[int, Waiter] = {}
        try:
            self._open_some()
        except BaseException:
            self.close()
            raise

    def _open_some(self) -> None:
        """Wait on the homes, which may be others by now, or on others if those don't answer.

        :raises BoardUnavailable: no shard answers.
        """
        health = self._fleet.health
        answering = [number for number in self._homes.waited_on() if not health.is_down(number)]
        wanted = answering or health.able()[:MAX_HOMES]
        for number in [number for number in self._waiters if number not in wanted]:
            self._waiters.pop(number).close()
        missing = [number for number in wanted if number not in self._waiters]
        opened = self._fleet.ask_able(missing, lambda shard: shard.waiter(self._names))
        try:
            self._waiters.update(opened)
        except BoardUnavailable:
            if not self._waiters:
                raise

    def ready_in(self) -> float | None:
        """Return the least of what the shards say that are waited on and answer.

        What gets due later is left to others for a moment if many wait there.

        :raises BoardUnavailable: none of them answers.
        """
        self._open_some()
        soonest: float | None = None
        able = [number for number in self._waiters if not self._fleet.health.is_down(number)]
        for number in able or self._waiters:
            seconds = self._ready_on(number)
            if seconds is not None and seconds <= 0:
                self._found(number)
                return 0.0
            if seconds is not None:
                soonest = seconds if soonest is None else min(soonest, seconds)
        seen, self._seen = self._seen, None
        if seen is not None and self._look(seen):
            return 0.0
        return None if soonest is None else soonest + self._homes.rank_delay

    def _ready_on(self, number: int) -> float | None:
        """Return what one of them says; None if it does not answer, while others may."""
        try:
            return self._fleet.ask(number, lambda _: self._waiters[number].ready_in())
        except BoardUnavailable:
            if all(self._fleet.health.is_doubtful(each) for each in self._waiters):
                raise
            return None

    def _look(self, number: int) -> bool:
        """Look whether a shard has a job to claim; it is asked again in its turn if it does not answer."""
        try:
            page = self._fleet.ask(number, lambda shard: shard.jobs.claimable(self._names, None, 1))
        except BoardUnavailable:
            return False
        if page.rows:
            self._found(number)
        return bool(page.rows)

    def wait(self, timeout: float | None) -> None:
        if timeout is not None and timeout <= 0:
            self._woken.clear()
            return
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        sleepers = [
            _Sleeper(number, waiter, None if timeout is None else timeout + _END_TIMEOUT, self._tell)
            for number, waiter in self._waiters.items()
            if not self._fleet.health.is_down(number)
        ]
        try:
            for sleeper in sleepers:
                sleeper.start()
            self._sleep(deadline, {sleeper.number for sleeper in sleepers})
        finally:
            # What returns from now on has nothing to tell.
            self._woken.set()
            for sleeper in sleepers:
                sleeper.interrupt()
            for sleeper in sleepers:
                sleeper.join(_END_TIMEOUT)
            self._woken.clear()
        failed = [sleeper for sleeper in sleepers if sleeper.failure is not None]
        for sleeper in failed:
            self._fleet.health.failed(sleeper.number)
        if failed and len(failed) == len(sleepers) and failed[0].failure is not None:
            # The board was closed, or nobody answers.
            raise failed[0].failure

    def _tell(self, number: int, is_ready: bool) -> None:
        """One of the shards may have a job, or has failed."""
        if is_ready and not self._woken.is_set():
            self._found(number)
        self._woken.set()

    def _sleep(self, deadline: float, slept_on: Collection[int]) -> None:
        """Sleep until a shard's waiter returns, somebody interrupts, or a look at another shard finds a job."""
        pause = math.inf if set(self._fleet.served) <= set(slept_on) else self._homes.look_interval
        looks, look_at = self._next_looks(), time.monotonic() + pause
        # Each turn sleeps; the last one until the deadline.
        while (left := deadline - time.monotonic()) > 0:
            until = min(look_at, self._turns.look_again_at) - time.monotonic()
            if self._woken.wait(max(0.0, min(left, until, threading.TIMEOUT_MAX))):
                return
            if self._take_turns():
                return
            if time.monotonic() >= look_at:
                look_at += pause
                if self.look_around(looks, slept_on):
                    return

    def _next_looks(self) -> Iterator[int]:
        """Go on where the last look was, or those with short waits would pass shards over."""
        if self._looks_from != self._homes.waited_on():
            self._looks, self._looks_from = self._homes.looks(), self._homes.waited_on()
        return self._looks

    def _take_turns(self) -> bool:
        """Let slots of limits of names move; return whether a shard has got one."""
        number = next(iter(self._turns.take_when_due()), None)
        if number is not None:
            self._seen = number
        return number is not None

    def look_around(self, looks: Iterator[int], slept_on: Collection[int]) -> bool:
        """Look at the next of the shards that nobody sleeps on; return whether it has a job to claim."""
        served = self._fleet.served
        turns = (served[place % len(served)] for place in itertools.islice(looks, len(served)))
        number = next((number for number in turns if number not in slept_on), None)
        if number is None or self._fleet.health.is_down(number) or not self._look(number):
            return False
        self._seen = number
        return True

    def interrupt(self) -> None:
        self._woken.set()

    def close(self) -> None:
        while self._waiters:
            self._waiters.popitem()[1].close()


class _Sleeper(threading.Thread):
    """Waits on one shard, and tells when that returns."""

    def __init__(
        self, number: int, waiter: Waiter, timeout: float | None, woken: Callable[[int, bool], object]
    ) -> None:
        super().__init__(name="jobboard-shard-wait", daemon=True)
        self.number = number
        self._waiter, self._timeout, self._told = waiter, timeout, woken
        # The time limit of the call holds for the requests of its threads too; Python 3.14 has a _context of its own.
        self._call_context = contextvars.copy_context()
        self._has_returned = False
        self.failure: BoardUnavailable | None = None

    def run(self) -> None:
        try:
            self._call_context.run(self._waiter.wait, self._timeout)
        except BoardUnavailable as error:
            self.failure = error
        finally:
            self._has_returned = True
            self._told(self.number, self.failure is None)

    def interrupt(self) -> None:
        """Let it return; what has returned by itself is left alone, since its next wait would return at once."""
        if self.is_alive() and not self._has_returned:
            self._waiter.interrupt()

    def join(self, timeout: float | None = None) -> None:
        if self.ident is not None:
            super().join(timeout)
