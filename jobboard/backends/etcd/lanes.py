"""Looks at lanes: what a step makes of them, beside the changes of its own jobs.

Each step that changes who holds the slots of a limited lane, or waits for one, rewrites the lane's guard, on condition
that the guard is as it was when the lane was read: so the lane is, too. A claim takes no slot, and writes no guard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from jobboard.backends import admission
from jobboard.backends.changes import BLOCKED, UNCLAIMED
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.job_reader import JobReader
from jobboard.backends.etcd.keys import MAX_SEQUENCE, Keys, LanePart, is_order, order_of, reversed_order
from jobboard.backends.etcd.lane_rules import KnownRules
from jobboard.backends.etcd.layout import VersionedJob, member_at, part_of, waits_for_lane
from jobboard.backends.etcd.stored import StoredJob
from jobboard.backends.etcd.txn import (
    MAX_BYTES,
    Compare,
    Found,
    KeyValue,
    Op,
    count_prefix,
    delete,
    get,
    modified_at,
    moved_timer,
    put,
    scan_prefix,
)
from jobboard.backends.kv.codec import NUMBER, NUMBER_OR_NONE, WHOLE, items_of, pack
from jobboard.backends.lanes import MAX_MOVES, LanePlan, LaneView, plan
from jobboard.backends.limits import LaneLimit, within_rooms
from jobboard.backends.transition import Note, Transition

#: How many jobs one look withdraws at most: each takes two comparisons.
MAX_WITHDRAWN = 25

#: Bytes that one job may have beyond what a request should hold: a look at a lane can move even the largest.
_MAX_RECORD = 300_000

#: How often a look is planned anew at most, since a job can't be moved; the next look goes on.
_MAX_PLANS = 5


@dataclass(slots=True)
class Member:
    """A job of a lane that a step changes: as it was read (None: it is new), as it is then, and what is told of it.

    ``has_joined``: it did not wait for its lane before this step.
    """

    job: VersionedJob | None
    row: StoredJob
    told: list[Note]
    has_joined: bool = False

    def take(self, transition: Transition[None]) -> None:
        """Add what the lane makes of it."""
        self.row.add_history(transition.history)
        self.told += transition.told


class Guard(NamedTuple):
    """What the guard of a lane holds: what its rate has come to, the moment of the next look, and what was offered.

    ``offered`` is that of a :class:`~jobboard.backends.lanes.LaneView`.
    """

    next_at: float = 0.0
    look_at: float | None = None
    offered: int = 0


@dataclass(slots=True)
class LaneStep:
    """A limited lane as it was read, and as a step leaves it.

    ``last`` are the last claimable jobs, the last one first, and ``blocked`` the first that wait, both as far as their
    keys tell; ``places`` are their keys. ``before`` is what the guard held, ``guard`` what it holds when the step has
    happened.
    """

    lane: str
    limit: LaneLimit
    revision: int
    before: Guard
    counts: dict[LanePart, int]
    last: list[StoredJob]
    blocked: list[StoredJob]
    places: dict[bytes, KeyValue]
    members: dict[str, Member] = field(default_factory=dict)
    moved: list[Member] = field(default_factory=list)
    guard: Guard = field(default_factory=Guard)
    is_cut: bool = False

    @property
    def needs_guard(self) -> bool:
        """Whether it has a limit, and jobs."""
        return self.limit.may_block and any(self.counts.values())

    @property
    def is_changed(self) -> bool:
        """Whether it must be written, if no job of the step belongs to it."""
        is_left_over = self.revision > 0 and not self.needs_guard and self.guard.look_at is None
        return bool(self.moved) or self.guard != self.before or is_left_over

    def compares(self, keys: Keys) -> list[Compare]:
        """Hold if the lane is as it was read."""
        return [modified_at(keys.guard(self.lane), self.revision)]

    def ops(self, keys: Keys) -> list[Op]:
        """Rewrite the guard, and the timer of the next look; a lane without jobs needs no guard."""
        look_at = self.guard.look_at
        before, after = (None if at is None else keys.look(at, self.lane) for at in (self.before.look_at, look_at))
        ops = moved_timer(before, after)
        if look_at is None and not self.needs_guard:
            return [*ops, delete(keys.guard(self.lane))] if self.revision else ops
        return [*ops, put(keys.guard(self.lane), pack(list(self.guard)))]


Planner: TypeAlias = Callable[[LaneStep, float], LanePlan[StoredJob]]


class Lanes:
    """Reads lanes in one request, and in another one the jobs that are moved."""

    def __init__(self, connection: Connection, reader: JobReader) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._reader = reader

    def follow(
        self, known: KnownRules, changed: Mapping[str, Sequence[Member]], now: float, room: int = MAX_BYTES
    ) -> list[LaneStep]:
        """Look at the lanes of the jobs that a step has changed; return those that have a limit.

        :param room: how many bytes the jobs may have that are moved, too; those of the lanes that are too many wait
            for the next look.
        """
        limited = dict[str, LaneLimit]()
        for lane, members in changed.items():
            limit = known.rules.of_lane(lane)
            if limit.may_block:
                limited[lane] = limit
                continue
            for member in members:
                # Those that waited under a limit that is removed are left to whoever has removed it.
                if waits_for_lane(member.row) and member.has_joined:
                    admission.admit_at_once(member.row)
        steps = self._read(limited, {lane: len(changed[lane]) + 1 for lane in limited})
        for step in steps:
            _enter(step, changed[step.lane])
        self._plan(steps, now, room)
        for step in steps:
            for member in step.members.values():
                if waits_for_lane(member.row) and member.has_joined:
                    member.take(admission.wait_for_lane(member.row, now))
        return steps

    def look(self, known: KnownRules, lanes: Sequence[str], now: float) -> list[LaneStep]:
        """Look at lanes, whatever their limits; return how each is then."""
        steps = self._read({lane: known.rules.of_lane(lane) for lane in lanes}, {})
        self._plan(steps, now, MAX_BYTES + _MAX_RECORD)
        return steps

    def exchange(
        self,
        known: KnownRules,
        asked: Mapping[str, Sequence[StoredJob]],
        can_claim: Callable[[str], bool],
        rooms: Mapping[str, int],
        most: int,
        now: float,
    ) -> list[LaneStep]:
        """Let up to ``most`` BLOCKED jobs have the slots of claimable ones that can't be claimed; return those lanes.

        :param asked: the jobs that may be admitted, by lane, as far as their keys tell.
        :param can_claim: whether somebody who asks can claim jobs of a name.
        :param rooms: how many jobs of each limited name.
        """
        left = dict(rooms)
        steps = self._read({lane: known.rules.of_lane(lane) for lane in asked}, {})
        for step in steps:
            stuck = [row for row in step.last if not can_claim(row.name)]
            allowed = within_rooms(asked[step.lane], left, attrgetter("name"))
            pairs = list(islice(zip(stuck, allowed, strict=False), most))
            most -= len(pairs)
            step.last, step.blocked = [row for row, _ in pairs], [row for _, row in pairs]
        self._plan(steps, now, MAX_BYTES, _pairs_of)
        return [step for step in steps if step.moved]

    # -- reading -------------------------------------------------------------------------------------------------------

    def _read(self, limits: Mapping[str, LaneLimit], counts: Mapping[str, int]) -> list[LaneStep]:
        """Read lanes, and as many of the jobs that may be moved, in one request."""
        if not limits:
            return []
        ops = [op for lane in limits for op in self._reads_of(lane, counts.get(lane, MAX_MOVES))]
        found = self._connection.read(ops)
        parts = len(ops) // len(limits)
        return [
            self._step(lane, limit, found[at * parts : (at + 1) * parts])
            for at, (lane, limit) in enumerate(limits.items())
        ]

    def _reads_of(self, lane: str, count: int) -> list[Op]:
        keys = self._keys
        return [
            get(keys.guard(lane)),
            *(count_prefix(keys.in_lane(lane, part)) for part in (LanePart.CLAIMED, LanePart.RETRYING)),
            scan_prefix(keys.in_lane(lane, LanePart.CLAIMABLE), min(count, MAX_WITHDRAWN)),
            scan_prefix(keys.in_lane(lane, LanePart.BLOCKED), min(count, MAX_MOVES) + 1),
        ]

    def _step(self, lane: str, limit: LaneLimit, found: Sequence[Found]) -> LaneStep:
        guard, claimed, retrying, claimable, blocked = found
        counts = {
            LanePart.CLAIMED: claimed.total,
            LanePart.RETRYING: retrying.total,
            LanePart.CLAIMABLE: claimable.total,
            LanePart.BLOCKED: blocked.total,
        }
        last, waiting = self._members(claimable, is_reversed=True), self._members(blocked, is_reversed=False)
        places = {kv.key: kv for _, kv in (*last, *waiting)}
        rows, blocked_rows = ([row for row, _ in members] for members in (last, waiting))
        return LaneStep(lane, limit, guard.modified, guard_of(guard.first), counts, rows, blocked_rows, places)

    def _members(self, found: Found, *, is_reversed: bool) -> list[tuple[StoredJob, KeyValue]]:
        """Return the jobs at these keys of a lane; delete keys that are of none."""
        members = []
        for kv in found.kvs:
            order = reversed_order(kv.last_part) if is_reversed else kv.last_part
            if is_order(order):
                members.append((member_at(order, kv.value), kv))
            else:
                self._connection.delete(kv)
        return members

    # -- plans ---------------------------------------------------------------------------------------------------------

    def _plan(self, steps: Sequence[LaneStep], now: float, room: int, planned: Planner | None = None) -> None:
        """Plan looks, and carry them out on the jobs, of which those are read that the step does not change anyway."""
        planned = planned or _planned
        rest = list(steps)
        for _ in range(_MAX_PLANS):
            plans = [(step, planned(step, now)) for step in rest]
            unread = [
                (step, row, part)
                for step, moves in plans
                for row, part in _moved(moves)
                if row.uuid not in step.members
            ]
            jobs = self._reader.read_at([row.order for _, row, _ in unread]) if unread else []
            again = set[str]()
            for (step, row, part), job in zip(unread, jobs, strict=True):
                if job is None or not _is_as_listed(job, row, step.lane, part):
                    self._leave_out(step, row, part, job)
                    again.add(step.lane)
                elif step.lane not in again and (room := room - size_of_row(job.row)) < 0:
                    _cut(step, row)
                    again.add(step.lane)
                else:
                    step.members[row.uuid] = Member(job, job.row.seen(), [])
            for step, moves in plans:
                if step.lane not in again:
                    _carry_out(step, moves, now)
            rest = [step for step, _ in plans if step.lane in again]
            if not rest:
                return
        for step in rest:
            step.guard = step.before._replace(look_at=now)

    def _leave_out(self, step: LaneStep, row: StoredJob, part: LanePart, job: VersionedJob | None) -> None:
        """Plan without a job that can't be moved; delete its place if no job, or another one, has it.

        Those that an exchange asks for were read before the lane, and may have another place by now, or none.
        """
        place = step.places.get(self._keys.in_lane(step.lane, part, row.order))
        if place is not None and part is LanePart.BLOCKED:
            step.counts[part] -= 1
        step.last = [one for one in step.last if one is not row]
        step.blocked = [one for one in step.blocked if one is not row]
        if place is not None and (job is None or job.row.newer is None):
            self._connection.delete(place)


def guard_of(kv: KeyValue | None) -> Guard:
    """Return what the guard of a lane holds; a look mends what can't be read."""
    if kv is None:
        return Guard()
    try:
        return Guard(*items_of(kv.value, (NUMBER, NUMBER_OR_NONE, WHOLE))[0])
    except ValueError:
        return Guard()


def _rank(row: StoredJob) -> bytes:
    """Return where a job stands in its lane; one that has no sequence yet comes behind those that are posted."""
    return order_of(row.priority, row.place, row.sequence or MAX_SEQUENCE)


def _enter(step: LaneStep, members: Sequence[Member]) -> None:
    """Let a lane be as these changes of its jobs leave it."""
    gone = {member.row.uuid for member in members}
    step.last = [row for row in step.last if row.uuid not in gone]
    step.blocked = [row for row in step.blocked if row.uuid not in gone]
    for member in members:
        step.members[member.row.uuid] = member
        job, row = member.job, member.row
        if job is not None and job.row.is_live and job.row.joined_lane is not None:
            _count(step, part_of(job.row), -1)
        if row.is_live and row.joined_lane is not None:
            _count(step, part_of(row), 1)
            if row.state is BLOCKED:
                step.blocked.append(row)
            elif row.state is UNCLAIMED and row.claim is None:
                step.last.append(row)
    step.blocked.sort(key=_rank)
    step.last.sort(key=_rank, reverse=True)


def _count(step: LaneStep, part: LanePart, change: int) -> None:
    if part in step.counts:
        step.counts[part] += change


def _planned(step: LaneStep, now: float) -> LanePlan[StoredJob]:
    counts, limit = step.counts, step.limit
    held = counts[LanePart.CLAIMED] + (counts[LanePart.RETRYING] if limit.is_strict else 0)
    next_at, _, offered = step.before
    moves = plan(LaneView(held, counts[LanePart.CLAIMABLE], step.last, step.blocked, next_at, offered), limit, now)
    if len(moves.admit) == len(step.blocked) < counts[LanePart.BLOCKED]:
        # There may be room for jobs that were not read.
        moves.look_at = now
    return moves


def _pairs_of(step: LaneStep, _now: float) -> LanePlan[StoredJob]:
    """Plan an exchange: as many of the one kind as of the other."""
    pairs = list(zip(step.last, step.blocked, strict=False))
    return LanePlan([row for row, _ in pairs], [row for _, row in pairs], *step.before)


def _moved(moves: LanePlan[StoredJob]) -> list[tuple[StoredJob, LanePart]]:
    """Return the jobs that a plan moves, and from which part of their lane."""
    return [*((row, LanePart.CLAIMABLE) for row in moves.withdraw), *((row, LanePart.BLOCKED) for row in moves.admit)]


def _is_as_listed(job: VersionedJob, row: StoredJob, lane: str, part: LanePart) -> bool:
    """Whether a job can be moved from this part of a lane."""
    found = job.row
    return found.newer is None and found.joined_lane == lane and found.uuid == row.uuid and part_of(found) is part


def _cut(step: LaneStep, row: StoredJob) -> None:
    """Plan without a job that is too large to be moved in this step, and those behind it."""
    for rows in (step.last, step.blocked):
        for at, one in enumerate(rows):
            if one is row:
                # The first one fits any request that holds nothing else.
                del rows[at:]
                step.is_cut = True
                break


def size_of_row(row: StoredJob) -> int:
    """Return about how many bytes the keys of a job are."""
    return len(row.body) + len(row.checkpoint or b"") + len(row.last_error or "") + 3000


def _carry_out(step: LaneStep, moves: LanePlan[StoredJob], now: float) -> None:
    """Carry out a plan on the jobs of a lane, and note what its guard holds then."""
    for row in moves.withdraw:
        member = step.members[row.uuid]
        member.take(admission.withdraw(member.row, now))
    for row in moves.admit:
        member = step.members[row.uuid]
        if member.has_joined:
            admission.admit_at_once(member.row)
        else:
            member.take(admission.admit(member.row, now))
    step.moved = [member for row, _ in _moved(moves) if (member := step.members[row.uuid]).row is not row]
    change = len(moves.admit) - len(moves.withdraw)
    step.counts[LanePart.CLAIMABLE] += change
    step.counts[LanePart.BLOCKED] -= change
    look_at = now if step.is_cut else moves.look_at
    if look_at is None and moves.next_at > now and not step.needs_guard:
        # Its guard is kept until its rate has nothing to remember, also if the rate is removed and set again meanwhile.
        look_at = moves.next_at
    step.guard = Guard(moves.next_at, look_at, moves.offered)
