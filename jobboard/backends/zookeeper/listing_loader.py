"""Reads a whole board into the listing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import unquote

from jobboard.backends.zookeeper.changes import listed
from jobboard.backends.zookeeper.connection import MAX_READS, Connection
from jobboard.backends.zookeeper.layout import Layout, last_part
from jobboard.backends.zookeeper.listing import Listing
from jobboard.backends.zookeeper.schedule_index import decode_schedule
from jobboard.backends.zookeeper.stored_job import StoredJob, decode


class ListingLoader:
    """Lists jobs and schedules from their own znodes, some hundred in each request."""

    def __init__(self, connection: Connection, layout: Layout, listing: Listing) -> None:
        self._connection, self._layout, self._listing = connection, layout, listing

    def load(self, job_buckets: Sequence[str], schedule_buckets: Sequence[str]) -> None:
        """List what these buckets hold, each the name of a znode below ``jobs`` or ``schedules``."""
        for uuids in self._names_in(self._layout.jobs, job_buckets):
            self._load_jobs(uuids)
        for names in self._names_in(self._layout.schedules, schedule_buckets):
            self._load_schedules(names)

    def _names_in(self, folder: str, buckets: Sequence[str]) -> Iterator[list[str]]:
        paths = self._connection.children([f"{folder}/{bucket}" for bucket in buckets], is_fresh=False)
        names = list(map(last_part, paths))
        for start in range(0, len(names), MAX_READS):
            yield names[start : start + MAX_READS]

    def _load_jobs(self, uuids: Sequence[str]) -> None:
        found = self._connection.read_many(map(self._layout.job, uuids), is_fresh=False)
        with self._listing.lock:
            for uuid, data in zip(uuids, found, strict=True):
                job = None if data is None else decode(uuid, data.data, data.stat)
                if isinstance(job, StoredJob):
                    self._listing.put(listed(job), job.zxid)

    def _load_schedules(self, names: Sequence[str]) -> None:
        ids = [unquote(name) for name in names]
        found = self._connection.read_many(map(self._layout.schedule, ids), is_fresh=False)
        with self._listing.lock:
            for id, data in zip(ids, found, strict=True):
                if data is not None:
                    self._listing.schedules.put(id, decode_schedule(data.data)[1], data.stat.mzxid)
