"""Looks for contradictions on a board, and repairs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from jobboard.backends.findings import AuditFinding
from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.lifecycle import expire
from jobboard.backends.zookeeper.change_log import ChangeLogReader
from jobboard.backends.zookeeper.codec import uuid_in
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.edge_audit import EdgeAuditor, SuspectEdges
from jobboard.backends.zookeeper.errors import missing
from jobboard.backends.zookeeper.job_reader import JobReader
from jobboard.backends.zookeeper.job_record import Newer
from jobboard.backends.zookeeper.lane_audit import LaneAuditor, SuspectLane
from jobboard.backends.zookeeper.layout import Layout, last_part
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.read_modify_write import ReadModifyWrite
from jobboard.backends.zookeeper.requests import Data
from jobboard.backends.zookeeper.step_audit import StepAuditor, SuspectStep
from jobboard.backends.zookeeper.stored_job import NO_VALUE, StoredJob
from jobboard.backends.zookeeper.transactions import Transactions
from jobboard.backends.zookeeper.units import Write
from jobboard.states import JobState

#: A blob that is younger, in seconds, may belong to a post or an end that is under way.
MIN_BLOB_AGE = 60.0


class _Suspect(NamedTuple):
    """What seems wrong; ``seen`` are the transactions that wrote what was read of it, 0 for what was not there."""

    uuid: str | None
    problem: str
    seen: tuple[int, ...]
    path: str | None = None
    #: The field whose znode is missing.
    field: str | None = None


#: What any part of an audit finds.
_AnySuspect = _Suspect | SuspectLane | SuspectEdges | SuspectStep


class Auditor:
    """Reads the whole board, and once more if anything seems wrong.

    Others change the board meanwhile, and its znodes are read one after the other. If both rounds read the same of a
    suspect, from the same transactions, it was so at one moment in between; only that is a fault.
    """

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        clock: ServerClock,
        listing: Listing,
        change_log: ChangeLogReader,
        reader: JobReader,
        transactions: Transactions,
        jobs: ReadModifyWrite,
        lanes: LaneAuditor,
        edges: EdgeAuditor,
        steps: StepAuditor,
    ) -> None:
        self._connection, self._layout, self._clock, self._listing = connection, layout, clock, listing
        self._change_log, self._reader, self._transactions, self._jobs = change_log, reader, transactions, jobs
        self._lanes, self._edges, self._steps = lanes, edges, steps

    def audit(self, repair: bool) -> list[AuditFinding]:
        suspects = self._suspects()
        counted = self._blob_count() if suspects else 0
        if suspects:
            first = set(suspects)
            suspects = [suspect for suspect in self._suspects() if suspect in first and not self._is_under_way(suspect)]
        return [
            AuditFinding(suspect.uuid, suspect.problem, repaired=repair and self._repair(suspect, counted))
            for suspect in suspects
        ]

    def _suspects(self) -> list[_AnySuspect]:
        uuids = [last_part(path) for bucket in self._children([self._layout.jobs]) for path in self._children([bucket])]
        found = dict(zip(uuids, self._reader.read(uuids), strict=True))
        jobs = {uuid: job for uuid, job in found.items() if isinstance(job, StoredJob)}
        newer = {uuid for uuid, job in found.items() if isinstance(job, Newer)}
        # Read after the jobs, the log tells of every write that they were read from.
        self._change_log.refresh()
        return [
            *self._of_jobs(jobs),
            *self._of_keys(jobs, newer),
            *self._lanes.suspects(jobs),
            *self._edges.suspects(jobs, newer),
            *self._steps.suspects(jobs),
            # Jobs of a newer format may have blobs, too.
            *(suspect for suspect in self._of_blobs(jobs) if suspect.uuid is not None or not newer),
        ]

    def _children(self, paths: Sequence[str]) -> list[str]:
        return self._connection.children(paths, is_fresh=False)

    def _data(self, paths: Sequence[str]) -> dict[str, Data]:
        return dict(self._connection.existing(paths, is_fresh=False))

    # -- what is wrong ---------------------------------------------------------------------------------------------

    def _of_jobs(self, jobs: dict[str, StoredJob]) -> Iterator[_Suspect]:
        for job in jobs.values():
            for problem in self._problems_of(job):
                yield _Suspect(job.uuid, problem, (job.zxid,))

    def _problems_of(self, job: StoredJob) -> Iterator[str]:
        if job.state is JobState.CLAIMED and (job.owner is None or job.presence is None):
            yield "it is claimed, but nobody is its owner"
        if job.state is JobState.DELAYED and job.run_at is None:
            yield "it is delayed, but for no moment"
        with self._listing.lock:
            item = self._listing.items.get(job.uuid)
            if item is None or item.zxid < job.zxid or (item.zxid == job.zxid and item.state is not job.state):
                yield f"it is {job.state}, but not listed as such"

    def _of_keys(self, jobs: dict[str, StoredJob], newer: set[str]) -> Iterator[_Suspect]:
        read = self._data(self._connection.in_buckets(self._layout.keys, is_fresh=False))
        held = {path: (uuid_in(holder), holder.stat.mzxid) for path, holder in read.items()}
        known = set()
        for job in jobs.values():
            if job.key is not None and job.has_key:
                path = self._layout.key(job.name, job.key)
                known.add(path)
                uuid, zxid = held.get(path, (None, 0))
                if uuid != job.uuid and uuid not in newer:
                    yield _Suspect(job.uuid, "its key leads to another job, or nowhere", (job.zxid, zxid), path)
        for path, (uuid, zxid) in held.items():
            if path not in known and uuid not in newer:
                problem = f"the key {last_part(path)} leads to {uuid}, which is not live or does not have it"
                yield _Suspect(None, problem, (zxid,), path)

    def _of_blobs(self, jobs: dict[str, StoredJob]) -> Iterator[_Suspect]:
        there = set(self._connection.in_buckets(self._layout.blobs, is_fresh=False))
        for job in jobs.values():
            for field, blob in job.blobs.items():
                path = self._layout.blob(blob)
                if path not in there:
                    yield _Suspect(job.uuid, f"its {field} is missing", (job.zxid,), field=field)
                there.discard(path)
        for path in sorted(there):
            yield _Suspect(None, f"{path} belongs to no job", (), path)

    def _is_under_way(self, suspect: _AnySuspect) -> bool:
        """Whether this is a blob that was written just now, for a job that is still to be written."""
        if suspect.path is None or not suspect.path.startswith(self._layout.blobs):
            return False
        blob = self._data([suspect.path]).get(suspect.path)
        return blob is None or self._clock.now() - blob.stat.ctime / 1000 < MIN_BLOB_AGE

    # -- repairs ---------------------------------------------------------------------------------------------------

    def _repair(self, suspect: _AnySuspect, counted: int) -> bool:
        if isinstance(suspect, SuspectLane):
            return self._lanes.repair(suspect)
        if isinstance(suspect, SuspectEdges):
            (parent,) = self._jobs.current([suspect.parent]) if suspect.parent is not None else [None]
            return self._edges.repair(suspect, parent)
        if isinstance(suspect, SuspectStep):
            return self._steps.repair(suspect)
        if suspect.path is None:
            return self._rewrite(suspect)
        if suspect.uuid is not None:
            return self._give_back_key(suspect.uuid, suspect.path)
        request = self._connection.new_write()
        if suspect.path.startswith(self._layout.blobs):
            # Its writer may have gone on after all, and it may belong to a job by now.
            request.check(self._layout.blobs, counted)
            request.delete(suspect.path)
        else:
            (holder,) = self._data([suspect.path]).values() or (None,)
            if holder is None or (holder.stat.mzxid,) != suspect.seen:
                return False
            request.delete(suspect.path, holder.stat.version)
        return self._connection.is_written(request)

    def _blob_count(self) -> int:
        """Return the version that counts the jobs that were written after their blobs."""
        found = self._data([self._layout.blobs]).get(self._layout.blobs)
        if found is None:
            raise missing(self._layout.blobs)
        return found.stat.version

    def _rewrite(self, suspect: _Suspect) -> bool:
        """Write a job again as it is, with a line of the log, so that every client lists it like that."""

        def write(job: StoredJob | None, now: float) -> tuple[bool, Write]:
            if job is None or (job.zxid,) != suspect.seen:
                return False, Write.NOTHING
            if job.state is JobState.CLAIMED and job.owner is None:
                job.apply(partial(expire, job, now, "nobody was its owner"), now)
            if suspect.field is not None:
                # A posting without a body can't be read, and goes to the trash as such.
                del job.blobs[suspect.field]
                setattr(job, suspect.field, NO_VALUE[suspect.field])
            return True, Write.UPDATE

        assert suspect.uuid is not None
        return self._jobs.edit([(suspect.uuid, write)])[0]

    def _give_back_key(self, uuid: str, path: str) -> bool:
        """Let a key lead to the job that has it; of two jobs that have it, the one that it leads to keeps it."""
        holder = self._connection.read_one(path)
        held_by = uuid if holder is None else uuid_in(holder)
        job, rival = self._jobs.current([uuid, held_by])
        if job is None or job.key is None or not job.has_key:
            return False
        if rival is not None and held_by != uuid and rival.has_key and (rival.name, rival.key) == (job.name, job.key):
            return self._take_key(job)
        self._transactions.create_parents([path])
        request = self._connection.new_write()
        request.check(self._layout.job(uuid), job.version)
        if holder is None:
            request.create(path, uuid.encode())
        else:
            request.set(path, uuid.encode(), holder.stat.version)
        return self._connection.is_written(request)

    def _take_key(self, found: StoredJob) -> bool:
        def write(job: StoredJob | None, _now: float) -> tuple[bool, Write]:
            if job is None or job.zxid != found.zxid:
                return False, Write.NOTHING
            job.key = None
            return True, Write.UPDATE

        return self._jobs.edit([(found.uuid, write)])[0]
