"""Writes changes of jobs, each on condition that the job is as it was read, and many in one request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.errors import LeaseNotFound
from jobboard.backends.etcd.events import Event, event_of, event_ops
from jobboard.backends.etcd.job_reader import CACHE_SIZE, JobReader
from jobboard.backends.etcd.layout import VersionedJob, content_of, steps_between
from jobboard.backends.etcd.leases import Leases
from jobboard.backends.etcd.stored import StoredJob
from jobboard.backends.etcd.txn import MAX_BYTES, Txn, combined, nested, size_of
from jobboard.backends.kv.cache import LruCache
from jobboard.backends.transition import Transition
from jobboard.events import EventKind
from jobboard.states import JobState

#: Jobs in one transaction: each is a nested one, and the server counts what both levels list.
MAX_JOBS = 50


@dataclass(slots=True)
class Change:
    """A change of a job as it was read to ``new`` (None: the job is deleted), and the events that tell of it.

    :param is_fenced: only if the claim that was read holds in that moment.
    :param retention: for how many seconds a completed record is shown.
    """

    job: VersionedJob
    new: StoredJob | None
    events: list[Event]
    is_fenced: bool = False
    retention: float = 0.0


def change_of(job: VersionedJob, row: StoredJob, transition: Transition[Any], *, is_fenced: bool = False) -> Change:
    """Return the change that a transition asks for; it has changed the job as callers see it to ``row``."""
    new = job.row.after(row, transition)
    events = [event_of(new, note) for note in transition.told]
    is_gone = any(note.kind is EventKind.PURGED for note in transition.told)
    return Change(job, None if is_gone else new, events, is_fenced, transition.retention)


class JobWriter:
    """Writes changes, and remembers the jobs that this client has claimed, so that the end of a claim needs no read."""

    def __init__(self, connection: Connection, leases: Leases, reader: JobReader) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._leases = leases
        self._orders = reader.orders
        #: The jobs that this client has claimed, as it left them.
        self.claimed: LruCache[VersionedJob] = LruCache(CACHE_SIZE)

    def apply(self, changes: Sequence[Change]) -> list[bool | None]:
        """Carry changes out, as many as one request can.

        True for each that was carried out; False for one whose job was not as it had been read; None for one that was
        not tried, because the request was full, or a lease was gone. The caller decides anew on those not carried out.
        """
        done: list[bool | None] = [None] * len(changes)
        try:
            txns = self._txns_of(changes)
            revision, results = self._send(txns, [change.events for change in changes[: len(txns)]])
        except LeaseNotFound:
            self._leases.forget_all()
            return done
        for at, is_done in enumerate(results):
            done[at] = is_done
            if is_done:
                self._remember(changes[at].job, changes[at].new, revision)
            else:
                uuid = changes[at].job.row.uuid
                self.claimed.forget(uuid)
                self._orders.forget(uuid)
        return done

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
        size = 0
        for change in changes:
            txn = self._txn_of(change)
            size += size_of(txn.then)
            if txns and size > MAX_BYTES:
                break
            txns.append(txn)
        return txns

    def _txn_of(self, change: Change) -> Txn:
        keys, job, new = self._keys, change.job, change.new
        is_complete = new is not None and new.state is JobState.COMPLETE
        lease = self._leases.for_records(change.retention, 1) if is_complete else 0
        compares = [*job.unchanged(keys), *(new.conditions if new is not None else ())]
        if change.is_fenced:
            compares += job.still_held(keys)
        return Txn(compares, steps_between(content_of(keys, job.row), content_of(keys, new, lease)))

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
