"""Leads lives of jobs on a store, and by the rules of :mod:`jobboard.backends.lifecycle` alone, and compares.

After each request the answer, every field of the record and every line of the history must be the same; at the end
every event, too. Times are compared roughly, tokens by their order. Events that a store may leave out: EXTENDED and
CHECKPOINTED (SQL keeps the last one of a job), and those before PURGED, since the job is gone. Plain lives,
without a key and while nobody listens, are led before: a store may have a shorter path for them. On a store that keeps
ties, three jobs of one lane are led at once.

A failure names the seed: ``check_lifecycle(harness, count, seed)`` draws the same lives again.
"""

from __future__ import annotations

import random
import time
import uuid as uuids
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from jobboard.backends.base import Backend
from jobboard.backends.lane_rows import LimitRow
from jobboard.backends.rows import (
    Abandonment,
    ClaimRequest,
    Consumption,
    Extension,
    Fence,
    IfExists,
    JobRow,
    NewJob,
    Ties,
    Trashing,
)
from jobboard.backends.sweep import sweep
from jobboard.events import EventKind, JobEvent
from jobboard.limit import Limit, Rate
from jobboard.testing.harness import Harness
from jobboard.testing.lives import (
    BRIEF,
    LONG,
    Request,
    fixed_lives,
    fixed_lives_of_three,
    plain_life,
    random_life,
    random_lives_of_three,
)
from jobboard.testing.plain_store import PlainStore
from jobboard.types import LaneOrder

#: The difference of times that is none, in seconds.
NEAR = 60.0
#: For how long a store may take until its answers, or its events, are those of the rules, in seconds.
PATIENCE = 30.0
QUIET = frozenset({EventKind.EXTENDED, EventKind.CHECKPOINTED})


@dataclass
class World:
    """One of the two, with what was learned there: the tokens in their order, and who was granted which."""

    store: Any
    now: Callable[[], float]
    uuid: str
    key: str | None = "key"
    ties: Ties | None = None
    tokens: list[int] = field(default_factory=list)
    grants: list[tuple[int, str]] = field(default_factory=list)
    aliases: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"name of {self.uuid}"

    @property
    def rival(self) -> str:
        return _other(self.uuid, 1)

    def token(self, token: int | None) -> int | None:
        """Return the place of a token among those of this life."""
        if not token:
            return token
        if token not in self.tokens:
            self.tokens.append(token)
        return 1 + self.tokens.index(token)

    def fence(self, request: Request) -> Fence:
        if -len(self.grants) <= request.grant < len(self.grants):
            token, owner = self.grants[request.grant]
        else:
            token, owner = 10**12, "nobody"
        return Fence(self.uuid, request.who or owner, token)

    def seen(self, row: JobRow | None) -> dict[str, Any] | None:
        """Return what must be the same in both worlds."""
        if row is None:
            return None
        values = {each.name: getattr(row, each.name) for each in fields(row) if each.name != "sequence"}
        values["token"] = self.token(row.token)
        values["ties"] = row.ties and (row.ties.lane, row.ties.since)
        return values | {"history": ()}

    def granted(self, row: JobRow | None, claim: ClaimRequest) -> dict[str, Any] | None:
        if row is not None and row.claim_id == claim.claim_id:
            self.grants.append((row.token, claim.who))
        return self.seen(row)

    def look(self) -> list[Any]:
        """Return all that readers see of the job."""
        (row,) = self.store.jobs.read([self.uuid])
        lines = [
            (line.kind, line.who, self.token(line.token), line.reason) for line in self.store.jobs.history(self.uuid)
        ]
        holder = self.key and self.store.jobs.find(self.name, self.key)
        return [self.seen(row), lines, holder and holder.uuid]


def _other(uuid: str, number: int) -> str:
    return str(uuids.UUID(int=uuids.UUID(uuid).int ^ number))


def carry_out(world: World, request: Request, number: int) -> Any:
    """Send one request, the life's ``number``-th, and return the answer as plain data."""
    return getattr(_Requests(world, request, number), request.kind)()


class _Requests:
    """Each method sends the request of its name."""

    def __init__(self, world: World, request: Request, number: int) -> None:
        self.world, self.store, self.request, self.number = world, world.store, request, number
        self.fence = world.fence(request)
        self.said = request.operator, request.reason
        self.claim_request = ClaimRequest(request.by, f"claim {number} of {world.uuid}", request.expiry)

    def _new(self, uuid: str, if_exists: IfExists = IfExists.RAISE) -> NewJob:
        request = self.request
        return NewJob(
            uuid, self.world.name, request.priority, request.data or b"no data", self.world.key, if_exists,
            max_attempts=request.most, ties=self.world.ties, **self._later(),
        )  # fmt: skip

    def _later(self) -> dict[str, Any]:
        later = self.request.later
        return {"run_at": self.world.now() + later["run_at"]} if "run_at" in later else later

    def _post(self, new: NewJob) -> Any:
        (posted,) = self.store.jobs.post([new])
        # Of a job that is only remembered, a store need not know more than its uuid.
        is_shown = self.store.jobs.read([posted.row.uuid]) != [None]
        return posted.outcome, posted.row.uuid, is_shown and self.world.seen(posted.row)

    def post(self) -> Any:
        return self._post(self._new(self.world.uuid))

    def rival(self) -> Any:
        return self._post(self._new(self.world.rival))

    def rival_cancel(self) -> Any:
        return self.store.jobs.cancel([self.world.rival])

    def replace(self) -> Any:
        """Now and then the same posting again."""
        aliases = self.world.aliases
        if not (aliases and self.request.counted):
            aliases.append(_other(self.world.uuid, 2 + self.number))
        return self._post(self._new(aliases[-1], IfExists.REPLACE))

    def keep(self) -> Any:
        return self._post(self._new(_other(self.world.uuid, 2 + self.number), IfExists.KEEP))

    def claim(self) -> Any:
        return self.world.granted(self.store.jobs.claim(self.world.uuid, self.claim_request), self.claim_request)

    def claim_next(self) -> Any:
        rows = self.store.jobs.claim_next(self.claim_request, frozenset({self.world.name}), 2)
        return [self.world.granted(row, self.claim_request) if row.uuid == self.world.uuid else None for row in rows]

    def claimed_under(self) -> Any:
        (row,) = self.store.jobs.read([self.world.uuid])
        claim_id = None if row is None else row.claim_id
        return [self.world.seen(row) for row in self.store.jobs.claimed_under(claim_id or "none")]

    def extend(self) -> Any:
        return self.store.jobs.extend([Extension(self.fence, self.request.expiry, self.request.data)])

    def shorten(self) -> Any:
        return self.store.jobs.extend([Extension(self.fence, BRIEF, self.request.data)])

    def checkpoint(self) -> Any:
        return self.store.jobs.checkpoint(self.fence, self.request.data or b"")

    def consume(self) -> Any:
        return self.store.jobs.consume([Consumption(self.fence, self.request.data, self.request.retention)])

    def abandon(self) -> Any:
        return self.store.jobs.abandon([self._abandonment(self.fence)])

    def two_ends(self) -> Any:
        last = Fence(self.world.uuid, *self.world.grants[-1][::-1]) if self.world.grants else self.fence
        return self.store.jobs.abandon([self._abandonment(self.fence), self._abandonment(last)])

    def _abandonment(self, fence: Fence) -> Abandonment:
        request = self.request
        return Abandonment(fence, reason=request.reason, error=request.error, counted=request.counted, **self._later())

    def trash(self) -> Any:
        request = self.request
        return self.store.jobs.trash(
            [Trashing(self.world.uuid, self.fence, request.reason, request.error, self.fence.who)]
        )

    def force(self) -> Any:
        request = self.request
        return self.store.jobs.trash([Trashing(self.world.uuid, None, request.reason, request.error, request.operator)])

    def cancel(self) -> Any:
        return self.store.jobs.cancel([self.world.uuid], *self.said)

    def release(self) -> Any:
        return self.store.jobs.release(self.world.uuid, self.fence.token, self.request.reason or "gone")

    def run_now(self) -> Any:
        return self.store.jobs.run_now([self.world.uuid], *self.said)

    def reprioritize(self) -> Any:
        """The fixed lives all have one priority; the number of the request makes it another one."""
        priority = 1 + (self.request.priority + self.number) % 5
        return self.store.jobs.reprioritize([self.world.uuid], priority, *self.said)

    def restore(self) -> Any:
        return self.store.jobs.restore([self.world.uuid], *self.said)

    def purge(self) -> Any:
        return self.store.jobs.purge([self.world.uuid], *self.said)

    def pause(self) -> Any:
        self.store.maintenance.pause(self.world.name, *self.said)
        return self._pauses()

    def resume(self) -> Any:
        self.store.maintenance.resume(self.world.name)
        return self._pauses()

    def limit_lane(self) -> Any:
        """Set a limit of the jobs' lane, or remove it."""
        request, lane = self.request, self.world.ties
        rate = Rate(1, per=LONG) if request.priority == 5 else None
        order: LaneOrder = "free" if request.counted else "strict"
        assert lane is not None
        return self._limit(Limit(lane=lane.lane, running=request.most, order=order, rate=rate, by=request.operator))

    def limit_name(self) -> Any:
        return self._limit(Limit(name=self.world.name, running=self.request.most, by=self.request.operator))

    def _limit(self, limit: Limit) -> Any:
        limits = self.store.limits
        row = LimitRow(limit, f"version {self.number}", is_pending=limit.lane is not None)
        stored = {other.key: other.version for other in limits.all()}
        verdict = limits.put(row, stored.get(row.key))
        sweep(limits, [row])
        return verdict, [other.limit for other in limits.all() if other.key == row.key and not other.limit.is_empty]

    def _pauses(self) -> Any:
        found = [pause for pause in self.store.maintenance.pauses() if pause.name == self.world.name]
        return [(pause.by, pause.reason, pause.at.timestamp()) for pause in found]


# -- comparing ---------------------------------------------------------------------------------------------------------


def is_same(ours: Any, theirs: Any) -> bool:
    """Whether two answers are the same, times roughly."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(is_same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        return len(ours) == len(theirs) and all(map(is_same, ours, theirs))
    if isinstance(ours, float) and isinstance(theirs, float):
        return abs(ours - theirs) < NEAR
    return bool(ours == theirs)


def differences(ours: Any, theirs: Any) -> Any:
    """Return of two answers what is not the same."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return {key: differences(ours[key], theirs.get(key)) for key in ours if not is_same(ours[key], theirs.get(key))}
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple) and len(ours) == len(theirs):
        return [differences(a, b) for a, b in zip(ours, theirs, strict=True) if not is_same(a, b)]
    return {"lifecycle": ours, "store": theirs}


class Differential:
    """Leads lives on a backend that is open, and by the rules.

    :param key: what all jobs have.
    """

    def __init__(self, backend: Backend, seed: int, key: str | None = "key") -> None:
        self._backend, self._seed, self._key = backend, seed, key
        # The store is asked for its time only once: later than this clock, and so it is never ahead of it.
        began = time.monotonic()
        self._ahead = backend.now() - began
        self._events: dict[str | None, list[JobEvent]] = defaultdict(list)
        self._lives: list[tuple[World, World, Sequence[Request]]] = []

    def listen(self) -> None:
        self._backend.listen(lambda event: self._events[event.uuid].append(event), frozenset(EventKind))

    def lead(self, life: Sequence[Request], lane: str | None = None) -> None:
        """Lead one life in both worlds, and compare after each request; all its jobs are tied to the lane, if any."""
        plain = PlainStore(self._now)
        pairs = [self._pair(plain, lane) for _ in range(1 + max(request.job for request in life))]
        for number, request in enumerate(life):
            # The rules are asked a moment after the store, so that what is over there is over here.
            answer, expected = (carry_out(world, request, number) for world in reversed(pairs[request.job]))
            assert is_same(expected, answer), self._story(life, request, differences(expected, answer))
            if request.is_brief:
                time.sleep(2 * BRIEF)
            self._compare(pairs, life, request)
        self._lives += [(*pair, life) for pair in pairs]

    def _now(self) -> float:
        return time.monotonic() + self._ahead

    def _pair(self, plain: PlainStore, lane: str | None) -> tuple[World, World]:
        """Return a new job by the rules, and on the store."""
        uuid, ties = str(uuids.uuid4()), None if lane is None else Ties(lane)
        return (
            World(plain, self._now, uuid, self._key, ties),
            World(self._backend, self._now, uuid, self._key, ties),
        )

    def _compare(self, pairs: Sequence[tuple[World, World]], life: Sequence[Request], request: Request) -> None:
        """Compare what is seen of all jobs, for as long as something may be over in one world only.

        What is over of one job may admit another one, and a store may learn of it only by a look at the first.
        """
        deadline = time.monotonic() + (PATIENCE if request.is_brief else 0.0)
        while different := [
            differences(expected, seen)
            for ours, theirs in pairs
            if not is_same(expected := ours.look(), seen := theirs.look())
        ]:
            assert time.monotonic() < deadline, self._story(life, request, different)

    def compare_events(self) -> None:
        """Compare all that was told, for as long as some of it may be on its way."""
        deadline = time.monotonic() + PATIENCE
        for ours, theirs, life in self._lives:
            job, pauses = ours.store.told.get(ours.uuid, []), ours.store.maintenance.told.get(ours.name, [])
            for uuid, told in ((ours.uuid, job), (None, pauses)):
                expected = [(kind, who, ours.token(token), reason) for kind, who, _, token, reason in told]
                while not _is_told(expected, heard := self._heard(theirs, uuid)):
                    assert time.monotonic() < deadline, self._story(life, "events", differences(expected, heard))
                    time.sleep(0.01)

    def _heard(self, world: World, uuid: str | None) -> list[Any]:
        """Return the events of the life's job, or without a uuid those of its name."""
        events = [event for event in list(self._events[uuid]) if event.name == world.name]
        return [(event.kind, event.who, world.token(event.token), event.reason) for event in events]

    def _story(self, life: Sequence[Request], where: object, what: object) -> str:
        """Say of a failure what differs, where, in which life, and by which seed it was drawn."""
        lines = "\n".join(f"  {request}" for request in life)
        return f"seed {self._seed}, at {where}:\n{what}\nin the life {[request.kind for request in life]}:\n{lines}"


def _is_told(expected: Sequence[Any], heard: Sequence[Any]) -> bool:
    """Whether that is what was heard, but for what a store may leave out."""
    purged = [at for at, event in enumerate(expected) if event[0] is EventKind.PURGED]
    needed = [event for event in expected[purged[-1] if purged else 0 :] if event[0] not in QUIET]
    return _is_part(needed, heard) and _is_part(heard, expected)


def _is_part(some: Sequence[Any], whole: Sequence[Any]) -> bool:
    """Whether these are in the whole, in this order."""
    rest = iter(whole)
    return all(any(each == other for other in rest) for each in some)


def check_lifecycle(harness: Harness, count: int, seed: int | None = None) -> None:
    """Lead the fixed lives, and then ``count`` random ones, on a store of this harness.

    :param seed: of the random lives; None draws one.
    :raises AssertionError: on the first difference; says the seed and the life.
    """
    seed = random.randrange(2**32) if seed is None else seed
    draw = random.Random(seed)
    backend = harness.backend(harness.fresh_name())
    backend.open(20.0)
    try:
        plain = Differential(backend, seed, key=None)
        for each in (*fixed_lives(), *(random_life(draw) for _ in range(count))):
            plain.lead(plain_life(each))
        differential = Differential(backend, seed)
        differential.listen()
        for each in (*fixed_lives(), *(random_life(draw) for _ in range(count))):
            differential.lead(each)
        if harness.capabilities.ties:
            lives = (*fixed_lives_of_three(), *(random_lives_of_three(draw) for _ in range(count)))
            for number, each in enumerate(lives):
                differential.lead(each, f"lane {number}")
        differential.compare_events()
        assert backend.maintenance.audit(False) == []
    finally:
        backend.close()
