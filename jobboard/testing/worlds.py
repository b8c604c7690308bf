"""One of the two worlds that :mod:`jobboard.testing.differential` compares, and the requests of a life in it."""

from __future__ import annotations

import dataclasses
import re
import uuid as uuids
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from jobboard.backends.edge_rows import SignalOutcome, StepRow
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
    Refused,
    Ties,
    Trashing,
)
from jobboard.backends.sweep import sweep
from jobboard.limit import Limit, Rate
from jobboard.states import LIVE
from jobboard.testing.lives import (
    BRIEF,
    LONG,
    Request,
)
from jobboard.types import LaneOrder


@dataclass
class World:
    """One of the two, with what was learned there: the tokens in their order, and who was granted which."""

    store: Any
    now: Callable[[], float]
    uuid: str
    key: str | None = "key"
    ties: Ties | None = None
    #: The uuids of the jobs that it waits for; None: it has nothing to do with parents, steps and signals.
    parents: tuple[str, ...] | None = None
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
        values["ties"] = asdict(row.ties or Ties())
        values["reason"], values["last_error"] = unnamed(row.reason), unnamed(row.last_error)
        return values | {"history": ()}

    def granted(self, row: JobRow | None, claim: ClaimRequest) -> dict[str, Any] | None:
        if row is not None and row.claim_id == claim.claim_id:
            self.grants.append((row.token, claim.who))
        return self.seen(row)

    def holder(self) -> str | None:
        """Return the uuid of the job that holds the key."""
        row = self.key and self.store.jobs.find(self.name, self.key)
        return row.uuid if row else None

    def past(self) -> list[Any]:
        """Return what readers see of the job beside its record: its history, and its parents."""
        lines = [
            (line.kind, line.who, self.token(line.token), unnamed(line.reason))
            for line in self.store.jobs.history(self.uuid)
        ]
        return [lines, self._parents()]

    def _parents(self) -> list[Any]:
        edges = self.store.edges.parents(self.uuid, None, 10).edges if self.parents else []
        return sorted((edge.parent, edge.outcome, edge.result, edge.is_cut) for edge in edges)

    def family(self) -> list[Any]:
        """Return what readers see of the children of the job, and of its steps and signals."""
        edges, steps = self.store.edges, self.store.steps
        # Of a job that is gone a store need not know the children.
        is_there = self.store.jobs.read([self.uuid]) != [None]
        found = edges.children(self.uuid, None, 10).edges if is_there else []
        children = [(edge.child, edge.outcome) for edge in found]
        signals = [(signal.name, signal.value) for signal in steps.signals(self.uuid)]
        done = [(step.number, step.name, step.result) for step in steps.load(self.uuid, 0, 10)]
        return [sorted(children), edges.counts([self.uuid]), sorted(signals), done]


def records(worlds: Sequence[World]) -> list[Any]:
    """Return the records of these jobs, which are in one store, by one request."""
    rows = worlds[0].store.jobs.read([world.uuid for world in worlds])
    return [world.seen(row) for world, row in zip(worlds, rows, strict=True)]


def unnamed(reason: str | None) -> str | None:
    """Return a reason without the uuid of the parent that it names: of several that failed, it may be any."""
    return reason and re.sub(r"its parent \S+", "its parent", reason)


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
            max_attempts=request.most, ties=self.world.ties, parents=self.world.parents or (), **self._later(),
        )  # fmt: skip

    def _later(self) -> dict[str, Any]:
        later = self.request.later
        return {"run_at": self.world.now() + later["run_at"]} if "run_at" in later else later

    def _post(self, new: NewJob) -> Any:
        (posted,) = self.store.jobs.post([new])
        # Of a job that is only remembered, a store need not know more than its uuid; and the record itself tells of
        # parents that have ended by now.
        is_shown = self.store.jobs.read([posted.row.uuid]) != [None]
        seen = self.world.seen(posted.row) if is_shown else None
        return posted.outcome, posted.row.uuid, seen and seen | {"ties": None}

    def post(self) -> Any:
        return self._post(self._new(self.world.uuid))

    def post_with_window(self) -> Any:
        return self._post(dataclasses.replace(self._new(self.world.uuid), key_for=LONG))

    def post_with_latest(self) -> Any:
        return self._post(dataclasses.replace(self._new(self.world.uuid), max_delay=LONG / 2))

    def post_to_begin(self) -> Any:
        return self._post_with(start_by=self.world.now() + BRIEF)

    def post_too_late(self) -> Any:
        return self._post_with(start_by=1.0)

    def _post_with(self, start_by: float) -> Any:
        ties = dataclasses.replace(self.world.ties or Ties(), start_by=start_by)
        return self._post(dataclasses.replace(self._new(self.world.uuid), ties=ties))

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

    def wait(self) -> Any:
        return self._wait(LONG if self.request.priority > 2 else 0.0)

    def wait_briefly(self) -> Any:
        return self._wait(BRIEF)

    def _wait(self, seconds: float) -> Any:
        end = dataclasses.replace(self._abandonment(self.fence), delay=seconds, run_at=None, signal="approved")
        return self.store.jobs.abandon([end])

    def signal(self) -> Any:
        data, by = self.request.data or b"", self.request.operator
        answer = self.store.steps.signal(self.world.uuid, "approved", data, by)
        # Of a job that is over a store may say either.
        (row,) = self.store.jobs.read([self.world.uuid])
        return answer if row is not None and row.state in LIVE else answer is SignalOutcome.DONE

    def save(self) -> Any:
        """The next step each time, whoever it is that has the claim."""
        done = len(self.store.steps.load(self.world.uuid, 0, 10))
        return self.store.steps.save(self.fence, StepRow(done, "charge", self.request.data or b""))

    def link(self) -> Any:
        return self.store.edges.link(self.world.uuid, [_other(self.world.parents[0], 1)] if self.world.parents else [])

    def take(self) -> Any:
        """The owner of a claim lets the job wait for another one."""
        parents = [_other(self.world.parents[0], 1)] if self.world.parents else []
        return self.store.edges.link(self.world.uuid, parents, self.fence)

    def end_with_posts(self) -> Any:
        """What follows has the key of the job, or that of the live one of another name."""
        end = Consumption(self.fence, self.request.data, self.request.retention, self._following())
        return self._refusal_of(self.store.jobs.consume([end]))

    def trash_with_posts(self) -> Any:
        request = self.request
        end = Trashing(
            self.world.uuid, self.fence, request.reason, request.error, self.fence.who, posts=self._following()
        )
        return self._refusal_of(self.store.jobs.trash([end]))

    def _following(self) -> tuple[NewJob, ...]:
        new = self._new(self.world.rival)
        return (new, dataclasses.replace(new, uuid=_other(self.world.uuid, 1000 + self.number), key=None))

    def _refusal_of(self, answers: list[Any]) -> Any:
        """Return the answers as plain data."""
        return [
            [(posted.outcome, posted.row.uuid) for posted in answer.posts] if isinstance(answer, Refused) else answer
            for answer in answers
        ]

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
