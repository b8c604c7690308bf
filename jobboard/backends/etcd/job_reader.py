"""Reads jobs as they are stored: the place, the record and the claim of each."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain

from jobboard.backends.base import NO_UUID
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.keys import decoded, is_order, parts_of_order
from jobboard.backends.etcd.layout import VersionedJob
from jobboard.backends.etcd.stored import Hint, StoredClaim, StoredJob, newer_job, readable_claim, stored_job_of
from jobboard.backends.etcd.txn import Found, KeyValue, Op, get, scan, scan_prefix
from jobboard.backends.kv.cache import LruCache
from jobboard.codec import NewerFormat
from jobboard.states import JobState

#: For how many jobs a client remembers their places.
CACHE_SIZE = 20_000

#: The states in the record of a live job; a claim does not change the record.
_LIVE_STATES = (JobState.DELAYED, JobState.BLOCKED, JobState.UNCLAIMED)

#: How many reads :meth:`JobReader._reads_of` returns.
_READS_PER_JOB = 4


class JobReader:
    """Reads jobs as they are stored, also claims and delays that are over."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._keys = connection.keys
        #: The place of each job that this client has seen.
        self.orders: LruCache[bytes] = LruCache(CACHE_SIZE)
        #: The places of jobs whose records only later versions can read: this client does not claim them again.
        self.newer: dict[bytes, Hint] = {}

    def read(self, uuids: Sequence[str]) -> list[VersionedJob | None]:
        """Read jobs: in one request if their places are known, else in two."""
        found: dict[str, VersionedJob | None] = {}
        for _ in range(2):
            orders = self._orders_of([uuid for uuid in uuids if found.get(uuid) is None])
            found |= zip(orders, self.read_at(list(orders.values()), list(orders)), strict=True)
            moved = [uuid for uuid in orders if found[uuid] is None]
            for uuid in moved:
                # The job has got another place since this one was read, or is gone.
                self.orders.forget(uuid)
            if not moved:
                break
        return [found.get(uuid) for uuid in uuids]

    def read_at(self, orders: Sequence[bytes], uuids: Sequence[str] | None = None) -> list[VersionedJob | None]:
        """Read jobs at their places, at one moment; None where no job has its place."""
        if not any(map(is_order, orders)):
            return [None] * len(orders)
        reads = chain.from_iterable(map(self._reads_of, orders))
        sessions, *found = self._connection.read([scan_prefix(self._keys.sessions, keys_only=True), *reads])
        leases = self._keys.leases_of(sessions)
        jobs: list[VersionedJob | None] = []
        for at, order in enumerate(orders):
            live, claim, done, trashed = (part.first for part in found[_READS_PER_JOB * at : _READS_PER_JOB * (at + 1)])
            record = live or done or trashed
            if record is None or not is_order(order):
                jobs.append(None)
            else:
                jobs.append(self.job_from(record, claim, leases, uuids[at] if uuids else None))
        return jobs

    def read_live(self, orders: Sequence[bytes]) -> list[VersionedJob | None]:
        """Read the jobs at these places, which ascend: by ranges, since few other live jobs stand between them."""
        if not orders:
            return []
        keys, first, last = self._keys, orders[0], orders[-1] + b"\0"
        ranges = [scan(prefix + first, prefix + last, 2 * len(orders)) for prefix in (keys.live, keys.claims)]
        live, claims, sessions = self._connection.read([*ranges, scan_prefix(keys.sessions, keys_only=True)])
        leases = keys.leases_of(sessions)
        claim_at = {kv.last_part: kv for kv in claims.kvs}
        # Which of the jobs are claimed is unknown if not all claims were read.
        found = {
            kv.last_part: self.job_from(kv, claim_at.get(kv.last_part), leases) for kv in live.kvs if not claims.more
        }
        missing = [order for order in orders if order not in found]
        rest = dict(zip(missing, self.read_at(missing), strict=True))
        return [found.get(order) or rest.get(order) for order in orders]

    def job_from(
        self, record: KeyValue, claim: KeyValue | None, leases: Collection[int], uuid: str | None = None
    ) -> VersionedJob:
        """Make a job of its record, and of its claim if it is live.

        :param leases: all leases that have a session.
        :param uuid: that of the job, if it is known.
        """
        order = record.last_part
        row = self._row_from(order, record, uuid)
        job = VersionedJob(row, order, record.key, record.modified)
        if not record.key.startswith(self._keys.live):
            row.state = JobState.COMPLETE if record.key.startswith(self._keys.done) else JobState.TRASHED
            return job
        if row.state not in _LIVE_STATES:
            # It stands among the live jobs, so its record contradicts its key.
            job.row = row = self._unreadable(order, record, uuid)
        if claim is not None:
            job.claim_revision = claim.modified
            row.claim_token = claim.created
            # A claim that can't be read counts as one that is over.
            row.claim = readable_claim(claim.value) or StoredClaim(row.name, "", "", 0.0, 0.0, 0)
            if row.is_unreadable or row.newer is not None:
                row.name = row.claim.name
            job.is_held = row.claim.lease == 0 or row.claim.lease in leases
        return job

    def _reads_of(self, order: bytes) -> list[Op]:
        """Return the reads of all keys at which a job of this order can stand."""
        keys = self._keys
        return [get(key) for key in (keys.live + order, keys.claim(order), keys.done + order, keys.trashed + order)]

    def _row_from(self, order: bytes, record: KeyValue, uuid: str | None) -> StoredJob:
        try:
            row = stored_job_of(record.value)
            return row if row.order == order else self._unreadable(order, record, uuid)
        except NewerFormat:
            return newer_job(self._hint_of_newer(order, uuid), order, record.value)
        except ValueError:
            return self._unreadable(order, record, uuid)

    def _hint_of_newer(self, order: bytes, uuid: str | None) -> Hint:
        """Find out which job it is whose record only later versions can read; this takes one request for each, once."""
        hint = self.newer.get(order)
        if hint is None:
            (ready,) = self._connection.read([get(self._keys.ready(order))])
            hint = _hint_in(ready) or _unknown(order, uuid)
            if len(self.newer) < CACHE_SIZE:
                self.newer[order] = hint
        return hint if uuid is None else replace(hint, uuid=uuid)

    def _unreadable(self, order: bytes, record: KeyValue, uuid: str | None) -> StoredJob:
        """Return a row for a job whose record can't be read."""
        hint, (priority, place, sequence) = self._identify(order, uuid), parts_of_order(order)
        row = StoredJob(hint.uuid, hint.name, priority, sequence, hint.created_on, record.value, place=place)
        row.is_unreadable = True
        return row

    def _identify(self, order: bytes, uuid: str | None) -> Hint:
        """Find out which job it is whose record can't be read."""
        keys = self._keys
        ready, pointers = self._connection.read([get(keys.ready(order)), scan_prefix(keys.jobs)])
        uuids = (decoded(kv.key[len(keys.jobs) :]) for kv in pointers.kvs if kv.value == order)
        return _hint_in(ready) or _unknown(order, uuid or next(uuids, None))

    def _orders_of(self, uuids: Iterable[str]) -> dict[str, bytes]:
        """Find the places of jobs; one request reads all that this client does not know."""
        known = {uuid: order for uuid in uuids if (order := self.orders.get(uuid)) is not None}
        unknown = [uuid for uuid in dict.fromkeys(uuids) if uuid not in known]
        if unknown:
            pointers = self._connection.read([get(self._keys.job(uuid)) for uuid in unknown])
            for uuid, found in zip(unknown, pointers, strict=True):
                if found.first is not None and is_order(found.first.value):
                    known[uuid] = found.first.value
                    self.orders.put(uuid, found.first.value)
        return known


def _hint_in(ready: Found) -> Hint | None:
    return None if ready.first is None else Hint.of(ready.first.value)


def _unknown(order: bytes, uuid: str | None) -> Hint:
    return Hint(uuid or NO_UUID, "unknown", parts_of_order(order)[2] / 1e6)
