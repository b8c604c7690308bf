"""Audits a board: finds keys that contradict each other, and repairs them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.edge_audit import EdgeAudit
from jobboard.backends.etcd.errors import LeaseNotFound
from jobboard.backends.etcd.expiry import Expiry
from jobboard.backends.etcd.job_reader import JobReader
from jobboard.backends.etcd.keys import decoded, is_order, reversed_order
from jobboard.backends.etcd.lane_rules import limits_in
from jobboard.backends.etcd.lanes import guard_of
from jobboard.backends.etcd.layout import Content, VersionedJob, content_of
from jobboard.backends.etcd.limits import Limits
from jobboard.backends.etcd.snapshots import Snapshot
from jobboard.backends.etcd.step_audit import StepAudit
from jobboard.backends.etcd.txn import Found, KeyValue, Op, Txn, modified_at, put
from jobboard.backends.findings import AuditFinding
from jobboard.backends.lanes import count_problems, lanes_of
from jobboard.backends.limits import Rules

#: How often a repair looks at a lane at most.
_MAX_LOOKS = 10_000


class Audit:
    """Compares the keys of a board with those that its records ask for, all at one revision."""

    def __init__(
        self,
        connection: Connection,
        reader: JobReader,
        expiry: Expiry,
        limits: Limits,
        edges: EdgeAudit,
        steps: StepAudit,
    ) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._reader = reader
        self._expiry = expiry
        self._limits = limits
        self._edges, self._steps = edges, steps

    def audit(self, repair: bool) -> list[AuditFinding]:
        self._expiry.read_board([])
        snapshot = Snapshot(self._connection)
        jobs, leases, found = self._everything(snapshot)
        findings, expected = self._timers_of_lanes(found, repair)
        of_edges, timers = self._edges.audit(snapshot, jobs, found, repair)
        findings, expected = findings + of_edges, expected | timers
        newer = {job.order for job in jobs if job.row.newer is not None}
        keys = self._keys
        pointers = keys.jobs
        newer |= {key[len(pointers) :] for key, kv in found.items() if key.startswith(pointers) and kv.value in newer}
        newer_lanes = {
            keys.lane_of(key) for key in found if key.startswith(keys.lanes) and not newer.isdisjoint(_orders_of(key))
        }
        for job in jobs:
            if job.order not in newer:
                content = self._wanted(job)
                expected.update(content)
                findings += self._compare(job, content, found, leases[job.record], repair)
        expected |= self._kept_keys(jobs, found)
        for key, kv in found.items():
            if key not in expected and newer.isdisjoint((*_orders_of(key), kv.value)):
                repaired = repair and self._connection.delete(kv)
                findings.append(AuditFinding(None, f"belongs to no job: {keys.kind_of(key)}", repaired))
        limits = list(snapshot.pages(keys.limits))
        return [
            *findings,
            *self._steps.audit(snapshot, jobs, repair),
            *self._unreadable_limits(limits, repair),
            *self._lanes(Rules(limits_in(keys, limits)), jobs, found, newer_lanes, repair),
            *self._books(repair),
        ]

    def _kept_keys(self, jobs: Sequence[VersionedJob], found: Mapping[bytes, KeyValue]) -> set[bytes]:
        """Return the keys that jobs have kept after their ends, unless others have them by now."""
        rows = [job.row for job in jobs if not job.row.is_live and job.row.key_until is not None]
        orders = {self._keys.key(row.name, row.key): row.order for row in rows if row.key is not None}
        return {key for key, order in orders.items() if key in found and found[key].value == order}

    def _books(self, repair: bool) -> list[AuditFinding]:
        """Find entries whose book is not there."""
        keys, snapshot, findings = self._keys, Snapshot(self._connection), list[AuditFinding]()
        books = {kv.key for kv in snapshot.pages(keys.books, keys_only=True)}
        for kv in snapshot.pages(keys.entries, keys_only=True):
            book = keys.books + kv.key[len(keys.entries) :].partition(b"/")[0]
            if book not in books:
                repaired = repair and self._connection.delete(kv)
                findings.append(AuditFinding(None, "an entry belongs to no logbook", repaired))
        return findings

    def _timers_of_lanes(self, found: Mapping[bytes, KeyValue], repair: bool) -> tuple[list[AuditFinding], set[bytes]]:
        """Find guards whose lane would not be looked at in time; return the keys of guards and their timers, too.

        A guard that has neither jobs nor a timer belongs to nothing.
        """
        keys, findings, expected = self._keys, list[AuditFinding](), set[bytes]()
        with_jobs = {keys.lane_of(key) for key in found if key.startswith(keys.lanes)}
        for key, kv in found.items():
            if not key.startswith(keys.guards):
                continue
            lane, look_at = decoded(kv.last_part), guard_of(kv).look_at
            if look_at is not None or lane in with_jobs:
                expected.add(key)
            if look_at is None:
                continue
            timer = keys.look(look_at, lane)
            expected.add(timer)
            if timer not in found:
                mended = Txn([modified_at(key, kv.modified)], [put(timer, b"")])
                repaired = repair and self._connection.send(mended).succeeded
                findings.append(AuditFinding(None, f"the timer of the lane {lane!r} is missing", repaired))
        return findings, expected

    def _unreadable_limits(self, limits: Sequence[KeyValue], repair: bool) -> Iterator[AuditFinding]:
        """Find limits that hold for nothing, since they can't be decoded; a repair deletes them."""
        keys = self._keys
        for kv in limits:
            if not limits_in(keys, [kv]):
                what = " ".join(map(decoded, kv.key[len(keys.limits) :].split(b"/")))
                repaired = repair and self._connection.delete(kv)
                yield AuditFinding(None, f"the limit of the {what} can't be decoded", repaired)

    def _lanes(
        self,
        rules: Rules,
        jobs: Sequence[VersionedJob],
        found: Mapping[bytes, KeyValue],
        but: Collection[str],
        repair: bool,
    ) -> Iterator[AuditFinding]:
        """Find lanes that are not as their limits say, though no look at them is due; a look mends them.

        Jobs, guards and limits are of one revision: later ones may follow from a change that the jobs do not show.

        :param but: lanes of jobs that only later versions can read.
        """
        tied = [job.row.seen() for job in jobs if job.row.is_live and job.row.lane is not None]
        rows = lanes_of(row for row in tied if row.lane not in but)
        for lane, row in rows.items():
            look_at, now = guard_of(found.get(self._keys.guard(lane))).look_at, self._connection.now()
            problems = list(count_problems(row, rules))
            if problems and (look_at is None or look_at > now):
                repaired = repair and any(not self._limits.look([lane]) for _ in range(_MAX_LOOKS))
                yield from (AuditFinding(None, problem, repaired) for problem in problems)

    def _wanted(self, job: VersionedJob) -> Content:
        """Return what must be stored besides the record, which may be unreadable."""
        content = content_of(self._keys, job.row)
        return {key: value for key, value in content.items() if key != job.record}

    def _compare(
        self, job: VersionedJob, content: Content, found: Mapping[bytes, KeyValue], lease: int, repair: bool
    ) -> list[AuditFinding]:
        """Return at most one finding: which keys of a job are missing or wrong."""
        wrong = [key for key, (value, _) in content.items() if key not in found or found[key].value != value]
        if not wrong:
            return []
        repaired = repair and self._repair(job, wrong, content, lease)
        parts = sorted(set(map(self._keys.kind_of, wrong)))
        return [AuditFinding(job.row.uuid, f"missing or wrong: {', '.join(parts)}", repaired)]

    def _everything(self, snapshot: Snapshot) -> tuple[list[VersionedJob], dict[bytes, int], dict[bytes, KeyValue]]:
        """Read all jobs, the leases of their records, and all other keys of jobs, in pages of one revision."""
        keys = self._keys
        kvs: dict[bytes, KeyValue] = {}
        records = (keys.live, keys.done, keys.trashed)
        places = (keys.jobs, keys.ready_jobs, keys.queues, keys.claims, keys.timers, keys.unique)
        for prefix in (*records, *places, keys.lanes, keys.guards, keys.running):
            kvs |= {kv.key: kv for kv in snapshot.pages(prefix)}
        sessions = keys.leases_of(Found(list(snapshot.pages(keys.sessions)), 0, False))
        jobs = [
            self._reader.job_from(kv, kvs.get(keys.claim(kv.last_part)), sessions)
            for kv in kvs.values()
            if kv.key.startswith(records) and is_order(kv.last_part)
        ]
        leases = {job.record: kvs.pop(job.record).lease for job in jobs}
        return jobs, leases, kvs

    def _repair(self, job: VersionedJob, wrong: list[bytes], content: Content, lease: int) -> bool:
        """Write the wrong keys again, under the lease of the record, so that they are deleted together with it."""
        steps: list[Op] = [put(key, content[key][0], lease) for key in wrong]
        try:
            return self._connection.send(Txn(job.unchanged(self._keys), steps)).succeeded
        except LeaseNotFound:
            return False


def _orders_of(key: bytes) -> tuple[bytes, bytes]:
    """Return the order that ends a key; in a lane it may stand in reverse."""
    last = key.rpartition(b"/")[2]
    return last, reversed_order(last)
