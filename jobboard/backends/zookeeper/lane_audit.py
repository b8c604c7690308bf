"""Looks for contradictions between the limits of lanes, their guards and their jobs, and repairs them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.lanes import count_problems, lanes_of
from jobboard.backends.limits import Rules
from jobboard.backends.zookeeper.codec import Guard, decode_guard
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.job_reader import JobReader
from jobboard.backends.zookeeper.lane_limits import LaneLimits
from jobboard.backends.zookeeper.lane_looks import LaneLooks
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.backends.zookeeper.transactions import MAX_JOBS, Transactions

#: How many looks a repair of a lane takes at most.
MAX_LOOKS = 1000


class SuspectLane(NamedTuple):
    """What seems wrong with a lane; ``seen`` are the transactions that wrote what was read of it."""

    lane: str | None
    path: str
    problem: str
    seen: tuple[int, ...]

    #: It concerns no single job.
    uuid: None = None


class LaneAuditor:
    """Counts the jobs of each lane as they are stored."""

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        clock: ServerClock,
        listing: Listing,
        reader: JobReader,
        transactions: Transactions,
        limits: LaneLimits,
        looks: LaneLooks,
    ) -> None:
        self._connection, self._layout, self._clock, self._listing = connection, layout, clock, listing
        self._reader, self._transactions, self._limits, self._looks = reader, transactions, limits, looks

    def suspects(self, jobs: Mapping[str, StoredJob]) -> Iterator[SuspectLane]:
        """Say which lanes seem wrong."""
        paths = self._connection.in_buckets(self._layout.lanes, is_fresh=False)
        guards = dict(self._connection.existing(paths, is_fresh=False))
        tied = [(job.joined_lane, job) for job in jobs.values() if job.joined_lane is not None and job.is_live]
        written = defaultdict[str, list[int]](list)
        for lane, job in tied:
            written[lane].append(job.zxid)
        counted = lanes_of(job for _, job in tied)
        rules = Rules(self._limits.all())
        for lane, row in counted.items():
            path = self._layout.lane(lane)
            data = guards.pop(path, None)
            guard = Guard(lane) if data is None else decode_guard(data.data)
            seen = (0 if data is None else data.stat.mzxid, *written[lane])
            if guard is None:
                yield SuspectLane(lane, path, f"the guard of the lane {lane!r} is damaged", seen)
            elif guard.look_at is None or guard.look_at > self._clock.now():
                for problem in count_problems(row, rules):
                    yield SuspectLane(lane, path, problem, seen)
        for path, data in guards.items():
            if decode_guard(data.data) is None:
                yield SuspectLane(None, path, f"the guard {path} is damaged, and of no job's lane", (data.stat.mzxid,))

    def repair(self, suspect: SuspectLane) -> bool:
        """Let every client forget the jobs of a lane that are gone, and look at the lane until all is well."""
        if not self._mend_guard(suspect):
            return False
        if suspect.lane is None:
            return True
        self._forget_missing(suspect.lane)
        lanes = [suspect.lane]
        for _ in range(MAX_LOOKS):
            lanes = self._looks.look(lanes)
            if not lanes:
                break
        return not lanes

    def _mend_guard(self, suspect: SuspectLane) -> bool:
        """Write a damaged guard anew, or delete it if its lane is not known; False if another client was faster."""
        found = self._connection.read_one(suspect.path)
        if found is None or decode_guard(found.data) is not None:
            return True
        request = self._connection.new_write()
        if suspect.lane is None:
            request.set(self._layout.deleted, b"")
            request.delete(suspect.path, found.stat.version)
        else:
            request.set(suspect.path, Guard(suspect.lane).pack(), found.stat.version)
        return self._connection.is_written(request)

    def _forget_missing(self, lane: str) -> None:
        """Tell in the log which jobs of a lane do not exist any more: somebody has deleted their znodes by hand."""
        with self._listing.lock:
            listed = self._listing.of_lane(lane)
        missing = [
            uuid for uuid, job in zip(listed, self._reader.read(listed, is_fresh=False), strict=True) if job is None
        ]
        for start in range(0, len(missing), MAX_JOBS):
            transaction = self._transactions.begin()
            transaction.set(self._layout.deleted, b"")
            transaction.change.deleted += missing[start : start + MAX_JOBS]
            if not self._transactions.is_committed(transaction):
                return
