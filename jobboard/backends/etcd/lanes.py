"""Reads lanes: which job holds the slot of each, and which ones wait for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.job_reader import JobReader
from jobboard.backends.etcd.keys import MAX_SEQUENCE, Keys, order_of
from jobboard.backends.etcd.layout import VersionedJob
from jobboard.backends.etcd.stored import StoredJob
from jobboard.backends.etcd.txn import (
    Compare,
    Found,
    KeyValue,
    Txn,
    after,
    delete,
    get,
    kvs_of,
    modified_at,
    none_between,
    present,
    scan_prefix,
)
from jobboard.backends.kv.lanes import Lane
from jobboard.backends.lifecycle import BLOCKED


class VersionedLane(Lane[StoredJob]):
    """A lane, and what must hold when the step is written that it was read for.

    :ivar jobs: the jobs of ``blocked`` as they were read, by uuid.
    :ivar has_newer: whether a job waits that only later versions can read, and admit.
    """

    has_newer = False

    def __init__(self, keys: Keys, lane: str, slot: KeyValue | None, waiting: Iterable[VersionedJob]) -> None:
        self.jobs = {job.row.uuid: job for job in waiting}
        self._slot, self._queue = keys.slot(lane), keys.lane(lane)
        self._places = [self._queue + job.order for job in self.jobs.values()]
        self._revision = 0 if slot is None else slot.modified
        holder = None if slot is None else slot.value.decode(errors="replace")
        super().__init__(holder, [job.row.seen() for job in self.jobs.values()], _rank)

    def conditions(self) -> list[Compare]:
        """Hold if each job that was admitted is still the next one, and no job joins a lane whose slot is free."""
        if not self.looks:
            return [present(self._slot)] if self.is_joined else []
        compares, start = [modified_at(self._slot, self._revision)], self._queue
        if self.has_newer:
            return compares
        for end in [*self._places, after(self._queue)][: self.looks]:
            compares.append(none_between(start, end))
            start = end + b"\0"
        return compares


def _rank(row: StoredJob) -> bytes:
    """Return where a job stands in its lane; one that has no sequence yet comes behind those that are posted."""
    return order_of(row.priority, row.place, row.sequence or MAX_SEQUENCE)


class Lanes:
    """Reads lanes in one request, and in another one the jobs that may be admitted."""

    def __init__(self, connection: Connection, reader: JobReader) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._reader = reader

    def read(self, lanes: Iterable[str], leaving: Collection[str], count: int = 1) -> dict[str, VersionedLane]:
        """Read lanes, each with the first ``count`` jobs that wait for it if its slot is free, or may be.

        :param leaving: the jobs that may give their slots away.
        """
        keys, names = self._keys, list(dict.fromkeys(lanes))
        if not names:
            return {}
        slots = [get(keys.slot(lane)) for lane in names]
        found = self._connection.read([*slots, *(scan_prefix(keys.lane(lane), count) for lane in names)])
        held = {lane: slot.first for lane, slot in zip(names, found, strict=False)}
        queues = dict(zip(names, found[len(names) :], strict=True))
        free = {
            lane: queue
            for lane, queue in queues.items()
            if (slot := held[lane]) is None or slot.value.decode(errors="replace") in leaving
        }
        jobs = self._jobs_at(free)
        read = {}
        for lane in names:
            waiting = [jobs[kv] for kv in queues[lane].kvs if kv in jobs]
            read[lane] = VersionedLane(keys, lane, held[lane], [job for job in waiting if job.row.newer is None])
            read[lane].has_newer = any(job.row.newer is not None for job in waiting)
        return read

    def _jobs_at(self, queues: Mapping[str, Found]) -> dict[KeyValue, VersionedJob]:
        """Return the jobs that wait at the places in these queues; delete the places of other jobs."""
        places = kvs_of(queues.values())
        if not places:
            return {}
        waiting = {}
        for kv, job in zip(places, self._reader.read_at([kv.last_part for kv in places]), strict=True):
            if job is not None and (job.row.state is BLOCKED or job.row.newer is not None):
                waiting[kv] = job
            else:
                # Unless another client has just written it: then the comparison fails.
                self._connection.send(Txn([modified_at(kv.key, kv.modified)], [delete(kv.key)]))
        return waiting
