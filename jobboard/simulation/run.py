"""One run: arrivals on a board in memory, whose clock jumps from each event to the next."""

from __future__ import annotations

import gc
import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from jobboard.backends import lifecycle
from jobboard.backends.address import Address
from jobboard.backends.lanes import EXCHANGE_POLL, MAX_EXCHANGES
from jobboard.backends.memory import MemoryBackend
from jobboard.backends.memory.registry import forget_store
from jobboard.backends.memory.stored_job import draft
from jobboard.backends.rows import ClaimRequest, Consumption, Fence, JobRow, NewJob, Ties
from jobboard.board import JobBoard
from jobboard.limit import Limit
from jobboard.simulation.arrivals import Arrival
from jobboard.simulation.tally import Outcome, Tally

#: Is told how many arrivals more have been worked off.
Step = Callable[[int], object]

_WHO = "simulation"
_REQUEST = ClaimRequest(_WHO, _WHO, math.inf)
#: How many arrivals are reported together, and how many ended jobs are forgotten after an end, at most.
_MAX_STEP, _MAX_FORGOTTEN = 1000, 100


@dataclass(frozen=True, slots=True)
class Slots:
    """How many jobs a conductor runs at once: of these names; None: of every name."""

    count: int
    names: frozenset[str] | None = None


def run(arrivals: Sequence[Arrival], limits: Sequence[Limit], slots: Sequence[Slots], step: Step) -> Outcome:
    """Let jobs arrive, run and end under these limits, until nothing can start any more.

    The rules are those of a board in memory; nothing else decides which job starts when. The outcome is the same each
    time.

    :param arrivals: by their moments.
    :param slots: of each conductor.
    :raises ValueError: a limit is none.
    """
    with _board() as (board, backend, clock), backend.store.lock, _without_collector():
        for limit in limits:
            board.limits.set(
                name=limit.name, lane=limit.lane, running=limit.running, rate=limit.rate, order=limit.order
            )
        # A lane without a limit changes nothing but the time that the run takes.
        return _Run(backend, clock, arrivals, slots, step, has_lanes=bool(limits)).outcome()


class _Clock:
    """The time of one board: it stands still until it is set."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def _board() -> Iterator[tuple[JobBoard, MemoryBackend, _Clock]]:
    """Give a board that nobody else has; it is gone at the end of the ``with`` block."""
    space = uuid4().hex
    backend = MemoryBackend(_WHO, Address("memory", ((space, None),)))
    backend.store.clock = clock = _Clock()
    try:
        with JobBoard(_WHO, backend) as board:
            yield board, backend, clock
    finally:
        forget_store(space, _WHO)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Let Python look for no cycles: the store makes none, and to look through a million arrivals takes long."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Conductor:
    """Some free slots, and the moment at which it claims for them if nothing happens before."""

    def __init__(self, slots: Slots) -> None:
        self.names, self.free = slots.names, slots.count
        self.claims_at = math.inf


class _Run:
    """The loop over arrivals, ends, and the moments at which a limit lets another job start."""

    def __init__(
        self,
        backend: MemoryBackend,
        clock: _Clock,
        arrivals: Sequence[Arrival],
        slots: Sequence[Slots],
        step: Step,
        *,
        has_lanes: bool,
    ) -> None:
        self._jobs, self._store, self._clock = backend.jobs, backend.store, clock
        self._arrivals, self._next, self._arrives_at = arrivals, 0, arrivals[0].at
        self._conductors = [_Conductor(each) for each in slots]
        #: A heap: the moment, the arrival's number, the token, the conductor, and what the tally wants back.
        self._ends: list[tuple[float, int, int, _Conductor, float]] = []
        self._tally = Tally(arrivals)
        self._step = step
        self._has_lanes = has_lanes
        #: How many events have passed since the last start, while nothing ran and nothing arrived.
        self._fruitless = 0

    def outcome(self) -> Outcome:
        """Go from event to event, in the order of their moments; all of one moment happen before the next claims."""
        reported = 0
        while (now := self._next_moment()) < math.inf:
            self._clock.now = now
            self._tally.go_on(now)
            self._store.expire_and_promote()
            if self._ends and self._ends[0][0] <= now:
                self._end_jobs(now)
            if self._arrives_at <= now:
                self._post_jobs(now)
            for conductor in self._conductors:
                self._claim(conductor, now)
            if self._next - reported >= _MAX_STEP:
                self._step(self._next - reported)
                reported = self._next
        self._step(self._next - reported)
        return self._tally.outcome()

    def _next_moment(self) -> float:
        """Return the moment of the next event; infinity if nothing can start any more."""
        at = self._arrives_at
        if self._ends and self._ends[0][0] < at:
            at = self._ends[0][0]
        elif at == math.inf:
            return self._next_start()
        for conductor in self._conductors:
            if conductor.claims_at < at:
                at = conductor.claims_at
        return at

    def _next_start(self) -> float:
        """Return the moment at which one of the jobs that are left may start, while none runs and none arrives.

        A conductor asks each lane for an exchange once; then only the time of a rate can change anything.
        """
        lanes = self._store.lanes
        self._fruitless += 1
        looks = len(lanes.by_name) // MAX_EXCHANGES + 2
        if self._fruitless <= looks:
            return min(conductor.claims_at for conductor in self._conductors)
        timer = lanes.timers.first()
        return math.inf if timer is None or self._fruitless > looks + 2 * len(lanes.by_name) else timer[0]

    def _end_jobs(self, now: float) -> None:
        ends, store = self._ends, self._store
        while ends and ends[0][0] <= now:
            _, number, token, conductor, started = heapq.heappop(ends)
            uuid = str(number)
            store.change(uuid, lifecycle.consume, Consumption(Fence(uuid, _WHO, token), None, 0.0), now)
            conductor.free += 1
            self._tally.end(number, started)
        store.forget(_MAX_FORGOTTEN, now)

    def _post_jobs(self, now: float) -> None:
        arrivals, number, store = self._arrivals, self._next, self._store
        while number < len(arrivals) and arrivals[number].at <= now:
            _, name, lane, _, priority = arrivals[number]
            ties = Ties(lane) if self._has_lanes and lane is not None else None
            new = NewJob(str(number), name, priority, b"", ties=ties)
            store.post_alone(draft(new, now), new, now)
            self._tally.arrive(number)
            number += 1
        self._next = number
        self._arrives_at = arrivals[number].at if number < len(arrivals) else math.inf

    def _claim(self, conductor: _Conductor, now: float) -> None:
        """Let a conductor claim for its free slots, as a real one does; then it waits until a job may be ready."""
        conductor.claims_at = math.inf
        if not conductor.free:
            return
        store = self._store
        if store.unclaimed.by_name:
            rows = self._jobs.claim_next(_REQUEST, conductor.names, conductor.free)
            for row in rows:
                self._start(row, conductor, now)
            conductor.free -= len(rows)
            if not conductor.free:
                return
        if store.unclaimed.by_name:
            ready_at = store.next_ready(conductor.names, now)
            if ready_at is not None:
                # What is ready now it can't have.
                conductor.claims_at = ready_at if ready_at > now else now + EXCHANGE_POLL
        elif (timer := store.lanes.timers.first()) is not None:
            conductor.claims_at = timer[0]

    def _start(self, row: JobRow, conductor: _Conductor, now: float) -> None:
        self._fruitless = 0
        number = int(row.uuid)
        at, _, _, duration, _ = self._arrivals[number]
        started = self._tally.start(number, now - at)
        heapq.heappush(self._ends, (now + duration, number, row.token, conductor, started))
