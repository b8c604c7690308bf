"""``python -m benchmarks simulated-shards``: a board of many shards in virtual time.

The code that chooses shards for posts, claims, waits and looks is the board's own, one client for each conductor; the
stores and the conductors' loops are models (:mod:`benchmarks.shard_model`). The run has four parts: nobody posts; posts
that take a share of what the conductors can do; more posts than they can do; and no more posts until all is done.
At the beginning of each minute some delayed jobs are due at once.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from benchmarks.figures import percentile, print_rows, short
from benchmarks.shard_model import Events, ModelShard, ModelWaiter, Requests, Row
from jobboard.backends.rows import ClaimRequest, NewJob, Ties
from jobboard.backends.shards.claims import Claims
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.homes import Homes
from jobboard.backends.shards.ledger import Ledger
from jobboard.backends.shards.loads import Loads
from jobboard.backends.shards.placement import new_uuid
from jobboard.backends.shards.posting import Posting
from jobboard.backends.shards.turns import Turns
from jobboard.backends.shards.waiter import ShardsWaiter

#: Seconds from a store's wake-up until the conductor claims, and until it claims again what it was told of in vain.
_WAKE_LATENCY, _RETRY_DELAY = 0.001, 0.01
#: Seconds after which a waiter that heard nothing asks its store, as that of Redis does.
_POLL = 5.0
#: Seconds of the part in which nobody posts.
_IDLE = 60.0
#: How many programs post.
_PRODUCERS = 100
#: From so many waiting jobs a shard on, the shards are compared.
_COMPARED = 100
#: Every so many jobs the time from ready to start is noted.
_NOTED = 7

_COLUMNS = ("part", "starts", "claims a start", "requests a start", "requests/s", "beginning of a minute",
            "ready to start: median", "p95", "p99.9", "waiting: mean at most", "largest/mean at most",
            "at that height")  # fmt: skip


def main(words: list[str]) -> None:
    options = parser().parse_args(words)
    began = time.process_time()
    simulation = Simulation(options)
    with simulation.events.clock():
        parts = simulation.run()
    report(options, parts, simulation, time.process_time() - began)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks simulated-shards", description=__doc__)
    parser.add_argument("--shards", type=int, default=256)
    parser.add_argument("--conductors", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=10_000_000)
    parser.add_argument("--concurrency", type=int, default=4, help="jobs that a conductor runs at a time (4)")
    parser.add_argument("--seconds", type=float, default=4.0, help="a job takes, on average (4)")
    parser.add_argument(
        "--minutely", type=int, default=1000, help="delayed jobs due at the beginning of a minute (1000)"
    )
    parser.add_argument("--hot", type=float, default=0.0, help="share of the jobs that are in one lane (0)")
    parser.add_argument("--seed", type=int, default=1)
    return parser


@dataclass
class Part:
    """What a part of the run has shown."""

    what: str
    starts: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    #: Requests in each second.
    rates: list[int] = field(default_factory=list)
    #: The same, of the seconds in which a minute begins.
    boundaries: list[int] = field(default_factory=list)
    #: Seconds from ready to start, of some jobs.
    waits: list[float] = field(default_factory=list)
    #: Once a second, how many jobs wait on each shard on average, and on the one with the most.
    waiting: list[tuple[float, int]] = field(default_factory=list)


class Simulation:
    """The shards, all clients of them, and what they do."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.events = Events()
        self.requests = Requests(self.events)
        self.shards = [ModelShard(self.events, self.requests) for _ in range(options.shards)]
        self.choose = random.Random(options.seed)
        self.part = Part("")
        self._starts = 0
        names = [f"mill@host-{number}" for number in range(options.conductors)]
        with self.events.clock():
            self._producers = [Producer(self.fleet()) for _ in range(_PRODUCERS)]
            self._conductors = [Conductor(self, name, names) for name in names]

    def fleet(self) -> Fleet:
        """Return the shards as a new client sees them."""
        fleet = Fleet("simulation", cast(Any, self.shards), join=lambda _: None)
        fleet.random.seed(self.choose.random())
        return fleet

    def run(self) -> list[Part]:
        options = self.options
        capacity = options.conductors * options.concurrency / options.seconds
        for conductor in self._conductors:
            # They start within a few seconds.
            self.events.after(self.choose.uniform(0, _POLL), conductor.claim)
        self.events.run_until(30.0)
        parts = [self._measure("nobody posts", 0.0, 0)]
        for share in (0.7, 0.95, 1.2):
            parts.append(self._measure(f"posts of {share:.0%}", capacity * share, options.jobs // 3))
        parts.append(self._measure("what is left", 0.0, 0))
        return parts

    def _measure(self, what: str, rate: float, jobs: int) -> Part:
        """Let a part happen: so many jobs are posted at this rate; without any it lasts until none is left."""
        self.part = part = Part(what)
        self.requests.kinds.clear()
        self.requests.seconds.clear()
        events, began = self.events, self.events.now
        if jobs:
            self._post(rate, jobs)
            end = began + jobs / rate
        else:
            end = began + _IDLE
        while events.now < end or (not jobs and any(shard.waiting for shard in self.shards)):
            self._delayed(rate)
            events.run_until(events.now + 1.0)
            waiting = [len(shard.waiting) for shard in self.shards]
            part.waiting.append((statistics.fmean(waiting), max(waiting)))
        part.requests = self.requests.kinds.copy()
        self._note_rates(part, int(began))
        return part

    def _note_rates(self, part: Part, began: int) -> None:
        for second in range(began, int(self.events.now)):
            rates = part.rates if second % 60 else part.boundaries
            rates.append(self.requests.seconds[second])

    def _post(self, rate: float, left: int) -> None:
        self.choose.choice(self._producers).post(self._lane())
        if left > 1:
            self.events.after(self.choose.expovariate(rate), self._post, rate, left - 1)

    def _lane(self) -> Ties | None:
        hot = self.options.hot
        return Ties("hot") if hot and self.choose.random() < hot else None

    def _delayed(self, rate: float) -> None:
        """Post what is due at the beginning of the next minute, ten seconds before that."""
        now = self.events.now
        if int(now) % 60 == 50:
            for _ in range(self.options.minutely):
                self.choose.choice(self._producers).post(None, delay=60.0 - now % 60)

    def started(self, rows: list[Row]) -> None:
        """Note that a claim got these jobs."""
        self.part.starts += len(rows)
        self._starts += len(rows)
        if self._starts % _NOTED < len(rows):
            self.part.waits.append(self.events.now - rows[0].place)


class Producer:
    """A program that posts, with the board's own choice of the shard."""

    def __init__(self, fleet: Fleet) -> None:
        self._loads = Loads(fleet)
        self._posting = Posting(fleet, self._loads)

    def post(self, lane: Ties | None, delay: float | None = None) -> None:
        self._posting.post([NewJob(new_uuid(self._loads.choose()), "resize", 3, b"", delay=delay, ties=lane)])


class VirtualWaiter(ShardsWaiter):
    """Lets the model of a conductor do what this does in threads."""

    def told_by(self, told: Any) -> None:
        """Let this be called with the number of a shard that wakes this waiter."""
        for number, waiter in self._waiters.items():
            cast(ModelWaiter, waiter).told = lambda number=number: told(number)

    @property
    def slept_on(self) -> list[int]:
        return list(self._waiters)


class Conductor:
    """The loop of a conductor: claim for the free slots; wait once there is nothing to claim."""

    def __init__(self, simulation: Simulation, name: str, everybody: list[str]) -> None:
        fleet = simulation.fleet()
        homes = Homes(fleet)
        homes.learn(name, everybody)
        self._simulation, self._events, self._choose = simulation, simulation.events, simulation.choose
        turns = Turns(fleet, Ledger(fleet), homes)
        self._homes, self._claims = homes, Claims(fleet, homes, turns)
        self._waiter = VirtualWaiter(fleet, homes, None, self._claims, turns)
        self._waiter.told_by(self._told)
        self._request = ClaimRequest(name, name, 60.0)
        self._free = simulation.options.concurrency
        self._mean = simulation.options.seconds
        #: Whether it waits, and for which time.
        self._waits, self._turn = False, 0

    def claim(self) -> None:
        """Claim until no slot is free, or there is nothing to claim."""
        self._waits = False
        self._turn += 1
        while self._free:
            rows = cast(list[Row], self._claims.claim_next(self._request, None, self._free))
            if not rows:
                self._wait(self._waiter.ready_in())
                return
            self._free -= len(rows)
            self._simulation.started(rows)
            for _ in rows:
                self._events.after(self._choose.uniform(0.5, 1.5) * self._mean, self._ended)

    def _ended(self) -> None:
        self._free += 1
        if self._free == 1:
            self.claim()

    def _wait(self, due: float | None) -> None:
        self._waits = True
        if due is not None:
            self._events.after(max(due, _RETRY_DELAY), self._go_on, self._turn)
        self._events.after(_POLL, self._poll, self._turn)
        self._events.after(self._homes.look_interval, self._look, self._turn, self._homes.looks())

    def _told(self, number: int) -> None:
        if self._waits:
            self._claims.begin_at(number)
            self._waits = False
            self._turn += 1
            self._events.after(_WAKE_LATENCY, self.claim)

    def _go_on(self, turn: int) -> None:
        if turn == self._turn:
            self._waiter.tell_due()
            self.claim()

    def _look(self, turn: int, looks: Iterator[int]) -> None:
        if turn == self._turn:
            if self._waiter.look_around(looks, self._waiter.slept_on):
                self.claim()
            else:
                self._events.after(self._homes.look_interval, self._look, turn, looks)

    def _poll(self, turn: int) -> None:
        if turn == self._turn:
            due = self._waiter.ready_in()
            if due is not None and due <= 0:
                self.claim()
            else:
                self._events.after(_POLL, self._poll, turn)


def report(options: argparse.Namespace, parts: list[Part], simulation: Simulation, cpu: float) -> None:
    posted = [shard.posted for shard in simulation.shards]
    print(f"{options.shards} shards, {options.conductors:,} conductors with {options.concurrency} slots each")
    print(f"{sum(posted):,} jobs in {simulation.events.now:,.0f} virtual seconds; {cpu:,.0f} s of CPU")
    print(f"jobs posted to a shard: at most {max(posted) / statistics.fmean(posted):.2f} times the mean")
    rows = [_COLUMNS]
    rows += [tuple(_cells(part)) for part in parts]
    print_rows(rows)


def _cells(part: Part) -> Iterator[str]:
    yield part.what
    yield f"{part.starts:,}"
    starts = max(1, part.starts)
    yield f"{part.requests['claim'] / starts:.2f}" if part.starts else ""
    yield f"{sum(part.requests.values()) / starts:.2f}" if part.starts else ""
    mean = statistics.fmean(part.rates or [0])
    yield short(mean)
    yield f"{max(part.boundaries, default=0) / max(1.0, mean):.2f} times"
    for share in (0.5, 0.95, 0.999):
        yield f"{percentile(part.waits, share) * 1000:,.0f} ms" if part.waits else ""
    waiting = [each for each in part.waiting if each[0] >= 1]
    yield short(max((mean for mean, _ in waiting), default=0.0))
    # Of a few jobs one shard always has several times the mean.
    ratios = [most / mean for mean, most in waiting if mean >= _COMPARED]
    yield f"{max(ratios):.2f}" if ratios else ""
    height, most = max(waiting, default=(0.0, 0))
    yield f"{most / height:.2f}" if height >= _COMPARED else ""
