"""The audit: finds keys of a board that contradict each other, and repairs them."""

from __future__ import annotations

from collections.abc import Iterator

from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.errors import LeaseNotFound
from jobboard.backends.etcd.expiry import Expiry
from jobboard.backends.etcd.job_reader import JobReader
from jobboard.backends.etcd.keys import is_order
from jobboard.backends.etcd.layout import Content, VersionedJob, content_of
from jobboard.backends.etcd.txn import Found, KeyValue, Op, Txn, after, delete, found_of, get, modified_at, put, scan
from jobboard.backends.rows import AuditFinding

_AT_ONCE = 500


class Audit:
    """Compares what is there with what the records say must be there; both are of one revision."""

    def __init__(self, connection: Connection, reader: JobReader, expiry: Expiry) -> None:
        self._connection = connection
        self._http = connection.http
        self._keys = connection.keys
        self._reader = reader
        self._expiry = expiry

    def audit(self, repair: bool) -> list[AuditFinding]:
        self._expiry.read_board([])
        jobs, leases, found = self._everything()
        findings: list[AuditFinding] = []
        expected: dict[bytes, VersionedJob] = {}
        newer = {job.order for job in jobs if job.row.newer is not None}
        for job in jobs:
            if job.order in newer:
                continue
            content = self._wanted(job)
            expected |= dict.fromkeys(content, job)
            wrong = [key for key, (value, _) in content.items() if key not in found or found[key].value != value]
            if wrong:
                repaired = repair and self._repair(job, wrong, content, leases[job.record])
                parts = sorted({self._kind_of(key) for key in wrong})
                findings.append(AuditFinding(job.row.uuid, f"missing or wrong: {', '.join(parts)}", repaired))
        for key, kv in found.items():
            if key not in expected and newer.isdisjoint((key.rpartition(b"/")[2], kv.value)):
                repaired = repair and self._drop(kv)
                findings.append(AuditFinding(None, f"belongs to no job: {self._kind_of(key)}", repaired))
        return findings

    def _wanted(self, job: VersionedJob) -> Content:
        """Return what must be there besides the record, which may be unreadable."""
        content = content_of(self._keys, job.row)
        return {key: value for key, value in content.items() if key != job.record}

    def _everything(self) -> tuple[list[VersionedJob], dict[bytes, int], dict[bytes, KeyValue]]:
        """Read all jobs, the leases of their records, and all other keys about jobs, in pages of one revision."""
        keys = self._keys
        kvs: dict[bytes, KeyValue] = {}
        revision = int(
            self._http.call("/kv/range", get(keys.sequence)["request_range"], changes=False)["header"]["revision"]
        )
        records = (keys.live, keys.done, keys.trashed)
        for prefix in (*records, keys.jobs, keys.ready_jobs, keys.queues, keys.claims, keys.timers, keys.unique):
            kvs |= {kv.key: kv for kv in self._pages(prefix, revision)}
        sessions = keys.leases_of(Found(list(self._pages(keys.sessions, revision)), 0, False))
        jobs = [
            self._reader.job_from(kv, kvs.get(keys.claim(kv.key.rpartition(b"/")[2])), sessions)
            for kv in kvs.values()
            if self._is_record(kv.key)
        ]
        leases = {job.record: kvs.pop(job.record).lease for job in jobs}
        return jobs, leases, kvs

    def _pages(self, prefix: bytes, revision: int) -> Iterator[KeyValue]:
        start = prefix
        while True:
            op = scan(start, after(prefix), _AT_ONCE)
            op["request_range"]["revision"] = str(revision)
            reply = self._http.call("/kv/range", op["request_range"], changes=False)
            page = found_of(reply).kvs
            yield from page
            if not reply.get("more"):
                return
            start = page[-1].key + b"\0"

    def _is_record(self, key: bytes) -> bool:
        """Whether this is the key of a record; one whose place is none belongs to no job."""
        places = (self._keys.live, self._keys.done, self._keys.trashed)
        return key.startswith(places) and is_order(key.rpartition(b"/")[2])

    def _repair(self, job: VersionedJob, wrong: list[bytes], content: Content, lease: int) -> bool:
        """Write what is wrong anew, under the lease of the record, so that all of it goes at once."""
        steps: list[Op] = [put(key, content[key][0], lease) for key in wrong]
        try:
            return self._connection.send(Txn(job.unchanged(self._keys), steps)).succeeded
        except LeaseNotFound:
            return False

    def _drop(self, kv: KeyValue) -> bool:
        return self._connection.send(Txn([modified_at(kv.key, kv.modified)], [delete(kv.key)])).succeeded

    def _kind_of(self, key: bytes) -> str:
        return key[len(self._keys.root) :].split(b"/")[0].decode()
