"""Audits a board: finds keys that contradict each other, and repairs them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from jobboard.backends import admission
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.errors import LeaseNotFound
from jobboard.backends.etcd.expiry import Expiry
from jobboard.backends.etcd.job_reader import JobReader
from jobboard.backends.etcd.keys import is_order
from jobboard.backends.etcd.layout import Content, VersionedJob, content_of, steps_between
from jobboard.backends.etcd.txn import Found, KeyValue, Op, Txn, after, at_revision, delete, get, modified_at, put, scan
from jobboard.backends.findings import AuditFinding
from jobboard.backends.lanes import HOLDS_SLOT, problems_of_lanes
from jobboard.backends.lifecycle import BLOCKED, UNCLAIMED

_AT_ONCE = 500

#: Jobs of a lane that one audit changes at most.
_MAX_CHANGED = 15


class Audit:
    """Compares the keys of a board with those that its records ask for, all at one revision."""

    def __init__(self, connection: Connection, reader: JobReader, expiry: Expiry) -> None:
        self._connection = connection
        self._http = connection.http
        self._keys = connection.keys
        self._reader = reader
        self._expiry = expiry

    def audit(self, repair: bool) -> list[AuditFinding]:
        self._expiry.read_board([])
        jobs, leases, found = self._everything()
        lanes = defaultdict[str, list[VersionedJob]](list)
        findings, expected = list[AuditFinding](), set[bytes]()
        newer = {job.order for job in jobs if job.row.newer is not None}
        pointers = self._keys.jobs
        newer |= {key[len(pointers) :] for key, kv in found.items() if key.startswith(pointers) and kv.value in newer}
        for job in jobs:
            if job.order not in newer:
                content = self._wanted(job)
                expected.update(content)
                findings += self._compare(job, content, found, leases[job.record], repair)
                if job.row.ties is not None:
                    lanes[job.row.ties.lane].append(job)
        for key, kv in found.items():
            if key not in expected and newer.isdisjoint((kv.last_part, kv.value)):
                repaired = repair and self._drop(kv)
                findings.append(AuditFinding(None, f"belongs to no job: {self._kind_of(key)}", repaired))
        for lane, members in lanes.items():
            slot = found.get(self._keys.slot(lane))
            if slot is None or slot.value not in newer:
                findings += self._lane(lane, members, slot, repair)
        return findings + self._books(repair)

    def _books(self, repair: bool) -> list[AuditFinding]:
        """Find entries whose book is not there."""
        keys, revision, findings = self._keys, self._revision(), list[AuditFinding]()
        books = {kv.key for kv in self._pages(keys.books, revision, keys_only=True)}
        for kv in self._pages(keys.entries, revision, keys_only=True):
            book = keys.books + kv.key[len(keys.entries) :].partition(b"/")[0]
            if book not in books:
                repaired = repair and self._drop(kv)
                findings.append(AuditFinding(None, "an entry belongs to no logbook", repaired))
        return findings

    def _lane(
        self, lane: str, members: Sequence[VersionedJob], slot: KeyValue | None, repair: bool
    ) -> list[AuditFinding]:
        """Find a slot that several jobs hold, or that is free for nothing, or whose key names another job."""
        uuid = b"" if slot is None else slot.value
        held = sorted(
            (job for job in members if job.row.state in HOLDS_SLOT),
            key=lambda job: (job.row.claim is None, job.row.uuid.encode() != uuid, job.order),
        )
        waiting = sorted((job for job in members if job.row.state is BLOCKED), key=lambda job: job.order)
        problems = list(problems_of_lanes({lane: len(held)}, {lane: len(waiting)}))
        if held and held[0].row.uuid.encode() != uuid:
            problems.append(f"the key of the slot of the lane {lane!r} does not name the job that holds it")
        repaired = bool(problems) and repair and self._repair_lane(lane, held, waiting, slot)
        return [AuditFinding(None, problem, repaired) for problem in problems]

    def _repair_lane(
        self, lane: str, held: Sequence[VersionedJob], waiting: Sequence[VersionedJob], slot: KeyValue | None
    ) -> bool:
        """Let the first of these jobs hold the slot, and the other unclaimed ones wait. A second claim is not ended."""
        keys, key = self._keys, self._keys.slot(lane)
        first, *others = held or waiting
        changed = [job for job in others[:_MAX_CHANGED] if job.row.state is UNCLAIMED and job.row.claim is None]
        rows = [replace(job.row, state=BLOCKED) for job in changed]
        if not held:
            changed, rows = [first], [first.row.seen()]
            rows[0].add_history(admission.admit(rows[0], self._connection.now()).history)
        old: Content = {}
        new: Content = {}
        for job, row in zip(changed, rows, strict=True):
            old, new = old | content_of(keys, job.row), new | content_of(keys, row)
        old.pop(key, None)
        # A key that names no live job of the lane was deleted before this.
        compares = [modified_at(key, slot.modified if held and slot is not None else 0), *first.unchanged(keys)]
        compares += [compare for job in changed for compare in job.unchanged(keys)]
        steps = steps_between(old, new | {key: (first.row.uuid.encode(), 0)})
        return self._connection.send(Txn(compares, steps)).succeeded

    def _wanted(self, job: VersionedJob) -> Content:
        """Return what must be stored besides the record, which may be unreadable."""
        content = content_of(self._keys, job.row)
        return {key: value for key, value in content.items() if key != job.record}

    def _compare(
        self, job: VersionedJob, content: Content, found: Mapping[bytes, KeyValue], lease: int, repair: bool
    ) -> list[AuditFinding]:
        """Return at most one finding: which keys of a job are missing or wrong; the slot's is looked at by lane."""
        wrong = [
            key
            for key, (value, _) in content.items()
            if not key.startswith(self._keys.slots) and (key not in found or found[key].value != value)
        ]
        if not wrong:
            return []
        repaired = repair and self._repair(job, wrong, content, lease)
        parts = sorted({self._kind_of(key) for key in wrong})
        return [AuditFinding(job.row.uuid, f"missing or wrong: {', '.join(parts)}", repaired)]

    def _everything(self) -> tuple[list[VersionedJob], dict[bytes, int], dict[bytes, KeyValue]]:
        """Read all jobs, the leases of their records, and all other keys of jobs, in pages of one revision."""
        keys = self._keys
        kvs: dict[bytes, KeyValue] = {}
        revision = self._revision()
        records = (keys.live, keys.done, keys.trashed)
        places = (keys.jobs, keys.ready_jobs, keys.queues, keys.claims, keys.timers, keys.unique)
        for prefix in (*records, *places, keys.lanes, keys.slots):
            kvs |= {kv.key: kv for kv in self._pages(prefix, revision)}
        sessions = keys.leases_of(Found(list(self._pages(keys.sessions, revision)), 0, False))
        jobs = [
            self._reader.job_from(kv, kvs.get(keys.claim(kv.last_part)), sessions)
            for kv in kvs.values()
            if kv.key.startswith(records) and is_order(kv.last_part)
        ]
        leases = {job.record: kvs.pop(job.record).lease for job in jobs}
        return jobs, leases, kvs

    def _revision(self) -> int:
        reply = self._http.call("/kv/range", get(self._keys.sequence)["request_range"], changes=False)
        return int(reply["header"]["revision"])

    def _pages(self, prefix: bytes, revision: int, *, keys_only: bool = False) -> Iterator[KeyValue]:
        start = prefix
        while True:
            op = at_revision(scan(start, after(prefix), _AT_ONCE, keys_only=keys_only), revision)
            (page,) = self._connection.read([op])
            yield from page.kvs
            if not page.more:
                return
            start = page.kvs[-1].key + b"\0"

    def _repair(self, job: VersionedJob, wrong: list[bytes], content: Content, lease: int) -> bool:
        """Write the wrong keys again, under the lease of the record, so that they are deleted together with it."""
        steps: list[Op] = [put(key, content[key][0], lease) for key in wrong]
        try:
            return self._connection.send(Txn(job.unchanged(self._keys), steps)).succeeded
        except LeaseNotFound:
            return False

    def _drop(self, kv: KeyValue) -> bool:
        return self._connection.send(Txn([modified_at(kv.key, kv.modified)], [delete(kv.key)])).succeeded

    def _kind_of(self, key: bytes) -> str:
        return key[len(self._keys.root) :].split(b"/")[0].decode()
