"""Writes changes of jobs, each on condition that the job is as it was read, and many in one request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from jobboard.backends.etcd.changes import Change
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.errors import LeaseNotFound
from jobboard.backends.etcd.events import Event, event_ops
from jobboard.backends.etcd.job_reader import CACHE_SIZE, JobReader
from jobboard.backends.etcd.keys import Keys
from jobboard.backends.etcd.lane_rules import KnownRules, LaneRules
from jobboard.backends.etcd.lanes import Lanes, LaneStep, Member, size_of_row
from jobboard.backends.etcd.layout import Content, VersionedJob, steps_between, waits_for_lane
from jobboard.backends.etcd.leases import Leases
from jobboard.backends.etcd.stored import StoredJob
from jobboard.backends.etcd.txn import (
    MAX_BYTES,
    MAX_OPS,
    Compare,
    Op,
    Txn,
    absent,
    combined,
    compared_in,
    many,
    nested,
    put,
    size_of,
)
from jobboard.backends.kv.cache import LruCache

#: Jobs in one transaction: each is a nested one, and the server counts what both levels list.
MAX_JOBS = 50

#: Lanes that are looked at in one transaction, and changes of jobs of one lane in one.
_LANES_AT_ONCE, _MAX_OF_LANE = 10, 20

#: Comparisons in one transaction: the nested ones may have as many operations as these leave.
_MAX_COMPARES = 101


@dataclass(slots=True)
class _Unit:
    """What is written together or not at all: one change, or those of a lane with what a look makes of it then.

    ``at`` are the places of the changes among those that were asked for. ``txn`` is what else is written.
    """

    at: list[int]
    changes: list[Change]
    lane: LaneStep | None = None
    condition: Compare | None = None
    txn: Txn = field(default_factory=Txn)

    @property
    def events(self) -> list[Event]:
        return [event for change in self.changes for event in change.events]

    @property
    def waiting(self) -> set[str]:
        """The names of the jobs that wait for their lanes then."""
        rows = [change.new for change in self.changes if change.new is not None]
        return {row.name for row in rows if waits_for_lane(row)}


class JobWriter:
    """Writes changes, and remembers the jobs that this client has claimed, so that the end of a claim needs no read."""

    def __init__(
        self, connection: Connection, leases: Leases, reader: JobReader, lanes: Lanes, rules: LaneRules
    ) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._leases = leases
        self._orders = reader.orders
        self._lanes = lanes
        self._rules = rules
        #: The jobs that this client has claimed, as it left them.
        self.claimed: LruCache[VersionedJob] = LruCache(CACHE_SIZE)

    def apply(self, changes: Sequence[Change]) -> list[bool | None]:
        """Carry changes out, as many as one request can; what they post is left to others.

        True for each that was carried out; False for one whose job, or lane, was not as it had been read; None for one
        that was not tried, because the request was full, or a lease was gone. The caller decides anew on those not
        carried out.
        """
        done: list[bool | None] = [None] * len(changes)
        for unit, is_done in self._write(self._units_of(changes))[0]:
            for at in unit.at:
                done[at] = is_done
        return done

    def apply_with(self, changes: Sequence[Change], others: Sequence[Txn], closing: Txn) -> bool:
        """Carry out changes and other transactions, and ``closing`` if all of them can be; return whether it was.

        Otherwise as many of them are carried out as can be.
        """
        units = [*self._units_of(changes), *(_Unit([], [], txn=txn) for txn in others)]
        if not units:
            return self._connection.send(closing).succeeded
        return self._write(units, closing)[1]

    def look(self, lanes: Sequence[str]) -> list[str]:
        """Look at lanes, and return those that need another look at once."""
        known, now = self._rules.known(), self._connection.now()
        rest = list[str]()
        for start in range(0, len(lanes), _LANES_AT_ONCE):
            steps = self._lanes.look(known, list(lanes[start : start + _LANES_AT_ONCE]), now)
            done = self.write_lanes(known, steps)
            for step in steps:
                look_at = step.guard.look_at
                if not done.get(step.lane, not step.is_changed) or (look_at is not None and look_at <= now):
                    rest.append(step.lane)
        return rest

    def write_lanes(self, known: KnownRules, steps: Sequence[LaneStep]) -> dict[str, bool]:
        """Write what looks have made of lanes; return which of those that were tried are as planned."""
        units = [self._unit_of(known, step, [], []) for step in steps if step.is_changed]
        return {unit.lane.lane: is_done for unit, is_done in self._write(units)[0] if unit.lane is not None}

    def _write(self, units: Sequence[_Unit], closing: Txn | None = None) -> tuple[list[tuple[_Unit, bool]], bool]:
        """Write as many units as one request can; return whether each of these could be written.

        Return also whether all were written in one step, which ``closing`` was a part of.
        """
        try:
            txns = self._txns_of(units, [] if closing is None else closing.compares)
            last = closing if len(txns) == len(units) else None
            revision, results, is_closed = self._send(txns, units[: len(txns)], last)
        except LeaseNotFound:
            self._leases.forget_all()
            return [], False
        written = list(zip(units, results, strict=False))
        for unit, is_done in written:
            for change in unit.changes:
                if is_done:
                    self._remember(change.job, change.new, revision)
                else:
                    self.claimed.forget(change.job.row.uuid)
                    self._orders.forget(change.job.row.uuid)
            if unit.condition is not None and not is_done:
                self._rules.doubt()
        return written, is_closed and last is not None

    def _units_of(self, changes: Sequence[Change]) -> list[_Unit]:
        """Look at the lanes of jobs with ties; of one lane, no more changes are written together than a request can."""
        units = [_Unit([at], [change]) for at, change in enumerate(changes) if change.lane is None]
        tied = dict[str, list[int]]()
        for at, change in enumerate(changes):
            if change.lane is not None and len(tied.setdefault(change.lane, [])) < _MAX_OF_LANE:
                tied[change.lane].append(at)
        if not tied:
            return units
        known = self._rules.known()
        members = {lane: [_member_of(changes[at]) for at in places] for lane, places in tied.items()}
        room = MAX_BYTES - sum(map(_size_of, changes))
        steps = {step.lane: step for step in self._lanes.follow(known, members, self._connection.now(), room)}
        for lane, places in tied.items():
            units.append(self._unit_of(known, steps.get(lane), places, [changes[at] for at in places]))
        return units

    def _unit_of(self, known: KnownRules, step: LaneStep | None, places: list[int], changes: list[Change]) -> _Unit:
        moved = [] if step is None else [_change_of_moved(member) for member in step.moved]
        return _Unit(places, [*changes, *moved], step, known.condition)

    def remember_claim(self, job: VersionedJob) -> None:
        """Keep a job that this client has just claimed."""
        self.claimed.put(job.row.uuid, job)
        self._orders.put(job.row.uuid, job.order)

    def forget_claims(self, lease: int) -> None:
        """Forget the jobs that are claimed under a lease."""
        for uuid in [job.row.uuid for job in self._claimed_under(lease)]:
            self.claimed.forget(uuid)

    def has_claims(self, lease: int) -> bool:
        """Whether this client remembers a claim under a lease."""
        return any(True for _ in self._claimed_under(lease))

    def _claimed_under(self, lease: int) -> Iterable[VersionedJob]:
        return (job for job in self.claimed.values() if job.row.claim is not None and job.row.claim.lease == lease)

    def _send(self, txns: Sequence[Txn], units: Sequence[_Unit], closing: Txn | None) -> tuple[int, list[bool], bool]:
        """Carry out all of these in one step; if one of them can't be, then each by itself, in one request, too.

        Return the revision, what could be carried out, and whether it was one step, with ``closing``.
        """
        if not txns:
            return 0, [], False
        keys, apart = self._keys, waits_ops(self._keys, {name for unit in units for name in unit.waiting})
        apart += [op for unit in units for change in unit.changes for op in change.apart(keys)]
        events = [unit.events for unit in units]
        all_events = event_ops(keys, [event for those in events for event in those])
        result = self._connection.send(combined([*txns, *([] if closing is None else [closing])], all_events, apart))
        if result.succeeded or len(txns) == 1:
            return result.revision, [result.succeeded] * len(txns), result.succeeded
        most = MAX_OPS - len(txns) - len(apart)
        parts = []
        for at, txn in enumerate(txns):
            steps = [*txn.then, *event_ops(keys, events[at], slot=at)]
            parts.append(Txn(txn.compares, many(steps, len(txn.compares), most=most)))
        result = self._connection.send(Txn(then=[*map(nested, parts), *apart]))
        return result.revision, [answer.succeeded for answer in result.answers[: len(parts)]], False

    def _txns_of(self, units: Sequence[_Unit], compares: Sequence[Compare]) -> list[Txn]:
        """Return one transaction for each of these units, as many as fit one request that compares other things too."""
        txns: list[Txn] = []
        size, compared = 0, set(map(compared_in, compares))
        for unit in units:
            txn = self._txn_of(unit)
            size += size_of(txn.then)
            compared |= {compared_in(compare) for compare in txn.compares}
            if txns and (size > MAX_BYTES or len(compared) > _MAX_COMPARES):
                break
            txns.append(txn)
        return txns

    def _txn_of(self, unit: _Unit) -> Txn:
        keys = self._keys
        compares: list[Compare] = [*unit.txn.compares, *([] if unit.condition is None else [unit.condition])]
        old: Content = {}
        new: Content = {}
        for one in unit.changes:
            lease = self._leases.for_records(one.retention) if one.is_complete else 0
            compares += one.conditions(keys)
            before, after = one.contents(keys, lease)
            old, new = old | before, new | after
        ops = [*unit.txn.then, *steps_between(old, new), *(op for one in unit.changes for op in one.more_ops(keys))]
        if unit.lane is not None:
            compares += unit.lane.compares(keys)
            ops += unit.lane.ops(keys)
        return Txn(compares, ops)

    def _remember(self, job: VersionedJob, new: StoredJob | None, revision: int) -> None:
        """Remember a job as a change has left it, if it is still claimed: this client may end the claim."""
        old, uuid = job.row, job.row.uuid
        if new is None:
            self._orders.forget(uuid)
        else:
            self._orders.put(uuid, new.order)
        if new is None or new.claim is None or new.order != job.order:
            self.claimed.forget(uuid)
            return
        known = replace(job, row=new)
        if old.packed() != new.packed():
            known.record_revision = revision
        if old.claim != new.claim:
            known.claim_revision = revision
        self.claimed.put(uuid, known)


def _member_of(change: Change) -> Member:
    assert change.new is not None
    has_joined = waits_for_lane(change.new) and not waits_for_lane(change.job.row)
    return Member(change.job, change.new, change.told, has_joined)


def _change_of_moved(member: Member) -> Change:
    assert member.job is not None
    return Change(member.job, member.row, member.told)


def _size_of(change: Change) -> int:
    return 0 if change.new is None else size_of_row(change.new)


def waits_ops(keys: Keys, names: Iterable[str]) -> list[Op]:
    """Note that jobs of these names are BLOCKED, where that is not noted; each key is written by itself."""
    return [nested(Txn([absent(keys.waits(name))], [put(keys.waits(name), b"")])) for name in sorted(names)]
