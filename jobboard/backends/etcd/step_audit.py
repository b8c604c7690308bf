"""Audits steps and signals: finds those that can't be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.keys import decoded
from jobboard.backends.etcd.layout import VersionedJob
from jobboard.backends.etcd.read_modify_write import ReadModifyWrite
from jobboard.backends.etcd.snapshots import Snapshot
from jobboard.backends.etcd.steps import signal_in, step_in
from jobboard.backends.etcd.txn import KeyValue
from jobboard.backends.findings import AuditFinding
from jobboard.backends.kv.step_audit import UNREADABLE_SIGNAL, is_checked, trash, unreadable_step

#: How many values one request reads; each may be as large as a result.
_AT_ONCE = 50


class StepAudit:
    """Reads all steps and signals of live jobs at one revision."""

    def __init__(self, connection: Connection, jobs: ReadModifyWrite) -> None:
        self._connection, self._keys, self._jobs = connection, connection.keys, jobs

    def audit(self, snapshot: Snapshot, jobs: Sequence[VersionedJob], repair: bool) -> Iterator[AuditFinding]:
        checked = {job.row.uuid for job in jobs if job.row.newer is None and is_checked(job.row.seen())}
        # After the first step that can't be read a job comes to no other.
        found = dict[str, str]()
        for uuid, kv in self._values(snapshot, self._keys.steps):
            if uuid in checked and uuid not in found and step_in(kv) is None:
                found[uuid] = unreadable_step(decoded(kv.last_part))
        for uuid, problem in found.items():
            yield AuditFinding(uuid, problem, repair and trash(self._jobs, uuid, problem))
        for uuid, kv in self._values(snapshot, self._keys.signals):
            if uuid in checked and signal_in(kv) is None:
                yield AuditFinding(uuid, UNREADABLE_SIGNAL, repair and self._connection.delete(kv))

    def _values(self, snapshot: Snapshot, prefix: bytes) -> Iterator[tuple[str, KeyValue]]:
        for kv in snapshot.pages(prefix, size=_AT_ONCE):
            yield decoded(kv.key[len(prefix) :].partition(b"/")[0]), kv
