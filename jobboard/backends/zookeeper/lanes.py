"""Reads lanes: which job holds the slot of each, and which ones wait for it.

The znode of a slot is there while a job holds it, and has a child for each job that waits. So the server itself refuses
to free a slot for which a job waits, and to let a job wait for one that is free.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from jobboard.backends.kv.lanes import Lane
from jobboard.backends.lifecycle import BLOCKED
from jobboard.backends.zookeeper.change_log import ChangeLogReader
from jobboard.backends.zookeeper.codec import uuid_in
from jobboard.backends.zookeeper.connection import MAX_READS, Connection
from jobboard.backends.zookeeper.job_reader import JobReader
from jobboard.backends.zookeeper.layout import Layout, last_part
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.requests import Data
from jobboard.backends.zookeeper.stored_job import Newer, StoredJob
from jobboard.errors import BoardUnavailable


class VersionedLane(Lane[StoredJob]):
    """A lane, and the znode of its slot as it was read.

    :ivar held_by: the uuid of the job that held the slot then.
    """

    def __init__(self, path: str, slot: Data | None, blocked: Iterable[StoredJob]) -> None:
        self.path, self.version = path, -1 if slot is None else slot.stat.version
        self.held_by = None if slot is None else uuid_in(slot)
        super().__init__(self.held_by, blocked, rank_in_lane)


def rank_in_lane(job: StoredJob) -> tuple[int, float, int]:
    """Return where a job stands in its lane; one that is not posted yet comes behind those that are."""
    return -job.priority, job.place if job.zxid else float("inf"), job.sequence


class Lanes:
    """Reads slots in the request that catches up with the board, and in another one the jobs that may be admitted."""

    def __init__(
        self, connection: Connection, layout: Layout, listing: Listing, change_log: ChangeLogReader, reader: JobReader
    ) -> None:
        self._connection, self._layout, self._listing = connection, layout, listing
        self._change_log, self._reader = change_log, reader

    def read(self, lanes: Iterable[str], leaving: Collection[str], count: int = 1) -> dict[str, VersionedLane]:
        """Read lanes, each with the first ``count`` jobs that wait for it if its slot may become free.

        :param leaving: the jobs that may give their slots away.
        """
        names = list(dict.fromkeys(lanes))
        if not names:
            return {}
        slots = dict(zip(names, self._change_log.refresh(list(map(self._layout.slot, names))), strict=True))
        with self._listing.lock:
            listed = {
                lane: self._listing.waiting(lane, count)
                for lane, slot in slots.items()
                if slot is None or uuid_in(slot) in leaving
            }
        jobs = self._jobs([uuid for uuids in listed.values() for uuid in uuids])
        read = {}
        for lane, slot in slots.items():
            uuids = listed.get(lane, [])
            waiting = [job for uuid in uuids if (job := jobs[uuid]) is not None and _waits_for(job, lane)]
            if lane in listed and not waiting and slot is not None and slot.stat.numChildren:
                waiting = self._read_children(lane)
            read[lane] = VersionedLane(self._layout.slot(lane), slot, waiting)
        return read

    def _jobs(self, uuids: list[str]) -> dict[str, StoredJob | None]:
        """Read jobs, and correct the listing by them."""
        found = dict(zip(uuids, self._reader.read_jobs(uuids), strict=True)) if uuids else {}
        for uuid, job in found.items():
            self._change_log.correct(uuid, job)
        return found

    def _read_children(self, lane: str) -> list[StoredJob]:
        """Return the jobs that wait for a lane by its slot's znode, and delete the children that are of no such job."""
        children = self._connection.children([self._layout.slot(lane)])
        uuids = list(map(last_part, children))[:MAX_READS]
        waiting = []
        for uuid, job in zip(uuids, self._reader.read(uuids), strict=True):
            if isinstance(job, Newer):
                raise BoardUnavailable(
                    f"job {uuid} waits for its lane and is of format {job.format}; upgrade this client"
                )
            if isinstance(job, StoredJob) and _waits_for(job, lane):
                self._change_log.correct(uuid, job)
                waiting.append(job)
                continue
            deletion = self._connection.new_write()
            if isinstance(job, StoredJob):
                deletion.check(self._layout.job(uuid), job.version)
            deletion.delete(self._layout.waiting(lane, uuid))
            self._connection.write(deletion)
        return sorted(waiting, key=rank_in_lane)


def _waits_for(job: StoredJob, lane: str) -> bool:
    return job.state is BLOCKED and job.ties is not None and job.ties.lane == lane
