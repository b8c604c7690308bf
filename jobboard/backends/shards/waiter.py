"""Waits on a few shards at once, and looks at the others in turn."""

from __future__ import annotations

import contextvars
import itertools
import math
import threading
import time
from collections.abc import Callable, Collection, Iterator

from jobboard.backends.base import Waiter
from jobboard.backends.lanes import EXCHANGE_POLL
from jobboard.backends.shards.claims import Claims
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.homes import Homes
from jobboard.backends.shards.placement import MAX_HOMES
from jobboard.backends.shards.turns import Turns
from jobboard.errors import BoardUnavailable
from jobboard.states import JobState

#: Seconds that a shard's waiter gets to return once it is interrupted.
_END_TIMEOUT = 10.0


#: In how many seconds a claim asks a shard that has been looked at: one for all that may exchange jobs.
_CLAIM_IN = {JobState.UNCLAIMED: 0.0, JobState.BLOCKED: EXCHANGE_POLL, None: None}


class ShardsWaiter(Waiter):
    """Waits on the homes of this client's owners; the other shards are looked at.

    :param claims: begin where there may be a job, and say where the last one was.
    """

    def __init__(self, fleet: Fleet, homes: Homes, names: frozenset[str] | None, claims: Claims, turns: Turns) -> None:
        self._fleet, self._homes, self._names, self._claims, self._turns = fleet, homes, names, claims, turns
        #: When a claim may find a job on a shard that has said so, if that is soon.
        self._due: dict[int, float] = {}
        #: Where a look has found a job.
        self._seen: int | None = None
        #: The places to look at next, the homes that they begin from, and the seconds of sleep since the last look.
        self._looks: Iterator[int] = iter(())
        self._looks_from: list[int] = []
        self._slept = 0.0
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
        """Return the least of what the shards say that are waited on and answer, and the one that gave the last job.

        What gets due later is left to others for a moment if many wait there.

        :raises BoardUnavailable: none of them answers.
        """
        self._open_some()
        soonest = math.inf
        able = [number for number in self._waiters if not self._fleet.health.is_down(number)]
        for number in able or self._waiters:
            seconds = self._ready_on(number)
            if seconds:
                seconds += self._homes.rank_delay
                soonest = min(soonest, seconds)
            if self._expect(number, seconds):
                return 0.0
        seen, self._seen = self._seen, None
        # Nothing tells of other jobs in the lane of the last one.
        for other in dict.fromkeys((seen, self._claims.last)):
            if other is not None and other not in self._waiters and self._look(other):
                return 0.0
        soonest = min(soonest, self._next_due() - time.monotonic())
        return None if soonest == math.inf else max(0.0, soonest)

    def _expect(self, number: int, seconds: float | None) -> bool:
        """Learn in how many seconds there may be a job on a shard; return whether the next claim asks it now.

        What is not soon is asked for again by then: others may have claimed it. What is soon is asked for by a claim,
        which may exchange what nobody can claim for it.
        """
        before = self._due.pop(number, math.inf)
        if seconds is not None and seconds <= EXCHANGE_POLL + self._homes.rank_delay:
            self._due[number] = min(before, time.monotonic() + seconds)
        return self.tell_due()

    def _next_due(self) -> float:
        return min(self._due.values(), default=math.inf)

    def tell_due(self) -> bool:
        """Let the next claim ask where there may be a job by now; return whether there is such a shard."""
        now = time.monotonic()
        due = [number for number, at in self._due.items() if at <= now]
        for number in due:
            del self._due[number]
            self._claims.begin_at(number)
        return bool(due)

    def _ready_on(self, number: int) -> float | None:
        """Return what one of them says; None if it does not answer, while others may."""
        try:
            return self._fleet.ask(number, lambda _: self._waiters[number].ready_in())
        except BoardUnavailable:
            if all(self._fleet.health.is_doubtful(each) for each in self._waiters):
                raise
            return None

    def _look(self, number: int) -> bool:
        """Look whether a shard has a job to claim, or soon one in exchange for another.

        It is asked again in its turn if it does not answer.
        """
        try:
            outlook = self._fleet.ask(number, lambda shard: shard.jobs.outlook(self._names))
        except BoardUnavailable:
            return False
        if outlook is JobState.UNCLAIMED:
            self._seen = number
        return self._expect(number, _CLAIM_IN[outlook])

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
            self.tell_due()
        failed = [sleeper for sleeper in sleepers if sleeper.failure is not None]
        for sleeper in failed:
            self._fleet.health.failed(sleeper.number)
        if failed and len(failed) == len(sleepers) and failed[0].failure is not None:
            # The board was closed, or nobody answers.
            raise failed[0].failure

    def _tell(self, number: int, is_ready: bool) -> None:
        """One of the shards may have a job, or has failed."""
        if is_ready and not self._woken.is_set():
            self._claims.begin_at(number)
        self._woken.set()

    def _sleep(self, deadline: float, slept_on: Collection[int]) -> None:
        """Sleep until a shard's waiter returns, somebody interrupts, a job is due, or a look at another finds one.

        It looks once in so many seconds of sleep: in many short ones as often as in a long one.
        """
        pause = math.inf if set(self._fleet.served) <= set(slept_on) else self._homes.look_interval
        looks, began = self._next_looks(), time.monotonic() - min(self._slept, pause)
        try:
            # Each turn sleeps; the last one until the deadline.
            while (left := deadline - time.monotonic()) > 0:
                until = min(began + pause, self._turns.look_again_at, self._next_due()) - time.monotonic()
                if self._woken.wait(max(0.0, min(left, until, threading.TIMEOUT_MAX))):
                    return
                if self._take_turns() or self._next_due() <= time.monotonic():
                    return
                if time.monotonic() >= began + pause:
                    began = time.monotonic()
                    if self.look_around(looks, slept_on):
                        return
        finally:
            self._slept = time.monotonic() - began

    def _next_looks(self) -> Iterator[int]:
        """Go on where the last look was, or those with short waits would pass shards over."""
        if self._looks_from != self._homes.waited_on():
            self._looks, self._looks_from = self._homes.looks(), self._homes.waited_on()
        return self._looks

    def _take_turns(self) -> bool:
        """Let slots of limits of names move; return whether a shard has got one."""
        got = self._turns.take_when_due()
        for number in got:
            self._claims.begin_at(number)
        return bool(got)

    def look_around(self, looks: Iterator[int], slept_on: Collection[int]) -> bool:
        """Look at the next of the shards that nobody sleeps on; return whether it may have a job to claim."""
        served = self._fleet.served
        turns = (served[place % len(served)] for place in itertools.islice(looks, len(served)))
        number = next((number for number in turns if number not in slept_on), None)
        return number is not None and not self._fleet.health.is_down(number) and self._look(number)

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
