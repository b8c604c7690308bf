"""Writes changes of jobs, each on condition that the job is as it was read, and many in one request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobboard.backends import admission
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.errors import LeaseNotFound
from jobboard.backends.etcd.events import Event, event_of, event_ops
from jobboard.backends.etcd.job_reader import CACHE_SIZE, JobReader
from jobboard.backends.etcd.lanes import Lanes
from jobboard.backends.etcd.layout import Content, VersionedJob, content_of, steps_between
from jobboard.backends.etcd.leases import Leases
from jobboard.backends.etcd.stored import StoredJob
from jobboard.backends.etcd.txn import MAX_BYTES, Compare, Txn, combined, compared_in, nested, size_of
from jobboard.backends.kv.cache import LruCache
from jobboard.backends.kv.lanes import follow_together
from jobboard.backends.lanes import HOLDS_SLOT
from jobboard.backends.transition import Transition
from jobboard.events import EventKind
from jobboard.states import JobState

#: Jobs in one transaction: each is a nested one, and the server counts what both levels list.
MAX_JOBS = 50

#: Comparisons in one transaction: the nested ones may have as many operations as these leave.
_MAX_COMPARES = 101


@dataclass(slots=True)
class Change:
    """A change of a job as it was read to ``new`` (None: the job is deleted), and the events that tell of it.

    :param is_fenced: only if the claim that was read holds in that moment.
    :param retention: for how many seconds a completed record is shown.
    :param lane: the lane whose slot the job gives away or wants, or in which it does not wait any more.
    """

    job: VersionedJob
    new: StoredJob | None
    events: list[Event]
    is_fenced: bool = False
    retention: float = 0.0
    lane: str | None = None
    #: What the job's lane adds: comparisons, and the change of the job that is admitted in the same step.
    conditions: Sequence[Compare] = ()
    admitted: Change | None = None


def change_of(job: VersionedJob, row: StoredJob, transition: Transition[Any], *, is_fenced: bool = False) -> Change:
    """Return the change that a transition asks for; it has changed the job as callers see it to ``row``."""
    new = job.row.after(row, transition)
    events = [event_of(new, note) for note in transition.told]
    is_gone = any(note.kind is EventKind.PURGED for note in transition.told)
    concerns_lane = job.row.state in HOLDS_SLOT or JobState.BLOCKED in (job.row.state, new.state)
    lane = next((following.lane for following in transition.follow if concerns_lane), None)
    return Change(job, None if is_gone else new, events, is_fenced, transition.retention, lane)


def _add_admitted(change: Change, admitted: StoredJob, waiting: Mapping[str, VersionedJob]) -> None:
    """Let a change admit a job, which may be its own."""
    transition = admission.admit(admitted, change.events[-1].at)
    if admitted is change.new:
        admitted.add_history(transition.history)
        change.events += [event_of(admitted, note) for note in transition.told]
    else:
        change.admitted = change_of(waiting[admitted.uuid], admitted, transition)


def _all_of(change: Change) -> tuple[Change, ...]:
    """Return a change, and that of the job which it admits."""
    return (change,) if change.admitted is None else (change, change.admitted)


class JobWriter:
    """Writes changes, and remembers the jobs that this client has claimed, so that the end of a claim needs no read."""

    def __init__(self, connection: Connection, leases: Leases, reader: JobReader, lanes: Lanes) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._leases = leases
        self._orders = reader.orders
        self._lanes = lanes
        #: The jobs that this client has claimed, as it left them.
        self.claimed: LruCache[VersionedJob] = LruCache(CACHE_SIZE)

    def apply(self, changes: Sequence[Change]) -> list[bool | None]:
        """Carry changes out, as many as one request can.

        True for each that was carried out; False for one whose job was not as it had been read; None for one that was
        not tried, because the request was full, a lease was gone, or another change of its lane comes first. The caller
        decides anew on those not carried out.
        """
        done: list[bool | None] = [None] * len(changes)
        turn = self._admit(changes)
        try:
            txns = self._txns_of([changes[at] for at in turn])
            events = [[event for one in _all_of(changes[at]) for event in one.events] for at in turn[: len(txns)]]
            revision, results = self._send(txns, events)
        except LeaseNotFound:
            self._leases.forget_all()
            return done
        for at, is_done in zip(turn, results, strict=False):
            done[at] = is_done
            for one in _all_of(changes[at]):
                if is_done:
                    self._remember(one.job, one.new, revision)
                else:
                    uuid = one.job.row.uuid
                    self.claimed.forget(uuid)
                    self._orders.forget(uuid)
        return done

    def _admit(self, changes: Sequence[Change]) -> list[int]:
        """Add the jobs that are admitted to these changes; return the places of those that may be written at once."""
        tied = [
            (at, change.lane, change.new)
            for at, change in enumerate(changes)
            if change.lane is not None and change.new is not None
        ]
        lanes = self._lanes.read([lane for _, lane, _ in tied], {new.uuid for *_, new in tied})
        put_off = {at for at, *_ in tied}
        for at, lane, admitted in follow_together([(at, lanes[lane], new) for at, lane, new in tied]):
            put_off.remove(at)
            changes[at].conditions = lane.conditions()
            if admitted is not None:
                _add_admitted(changes[at], admitted, lane.jobs)
        return [at for at in range(len(changes)) if at not in put_off]

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

    def _send(self, txns: Sequence[Txn], events: Sequence[Sequence[Event]]) -> tuple[int, list[bool]]:
        """Carry out all of these in one step; if one of them can't be, then each by itself, in one request, too."""
        if not txns:
            return 0, []
        all_events = event_ops(self._keys, [event for those in events for event in those])
        result = self._connection.send(combined(txns, all_events))
        if result.succeeded or len(txns) == 1:
            return result.revision, [result.succeeded] * len(txns)
        parts = [
            Txn(txn.compares, [*txn.then, *event_ops(self._keys, events[at], slot=at)]) for at, txn in enumerate(txns)
        ]
        result = self._connection.send(Txn(then=[nested(part) for part in parts]))
        return result.revision, [answer.succeeded for answer in result.answers]

    def _txns_of(self, changes: Sequence[Change]) -> list[Txn]:
        """Return one transaction for each of these changes, as many as fit one request."""
        txns: list[Txn] = []
        size, compared = 0, set[tuple[str, str]]()
        for change in changes:
            txn = self._txn_of(change)
            size += size_of(txn.then)
            compared |= {compared_in(compare) for compare in txn.compares}
            if txns and (size > MAX_BYTES or len(compared) > _MAX_COMPARES):
                break
            txns.append(txn)
        return txns

    def _txn_of(self, change: Change) -> Txn:
        keys = self._keys
        compares: list[Compare] = []
        old: Content = {}
        new: Content = {}
        for one in _all_of(change):
            is_complete = one.new is not None and one.new.state is JobState.COMPLETE
            lease = self._leases.for_records(one.retention, 1) if is_complete else 0
            compares += [*one.job.unchanged(keys), *(one.new.conditions if one.new is not None else ())]
            compares += one.job.still_held(keys) if one.is_fenced else ()
            old, new = old | content_of(keys, one.job.row), new | content_of(keys, one.new, lease)
        return Txn([*compares, *change.conditions], steps_between(old, new))

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
