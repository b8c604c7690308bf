"""Reads jobs by their uuids."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends.zookeeper.connection import MAX_READS, Connection
from jobboard.backends.zookeeper.errors import missing
from jobboard.backends.zookeeper.job_record import Newer, decode_read
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.requests import Data
from jobboard.backends.zookeeper.sessions import Sessions
from jobboard.backends.zookeeper.stored_job import StoredJob

MAX_BLOB_READS = 16


class JobReader:
    """Reads jobs as their znodes hold them, and keeps up with which clients exist while it does."""

    def __init__(self, connection: Connection, layout: Layout, sessions: Sessions) -> None:
        self._connection, self._layout, self._sessions = connection, layout, sessions
        #: How many times jobs have been deleted from the board, as of the last look.
        self.deletions = 0

    def read(self, uuids: Sequence[str], *, is_fresh: bool = True) -> list[StoredJob | Newer | str | None]:
        """Return what is under these uuids: a job, one of a newer format, the uuid of an alias, or None."""
        found: list[StoredJob | Newer | str | None] = []
        for start in range(0, len(uuids), MAX_READS):
            part = uuids[start : start + MAX_READS]
            paths = [self._layout.sessions, self._layout.deleted, *map(self._layout.job, part)]
            sessions, deleted, *data = self._connection.read_many(paths, is_fresh=is_fresh)
            found += self._decoded(part, sessions, deleted, data)
        return found

    def _decoded(
        self, uuids: Sequence[str], sessions: Data | None, deleted: Data | None, data: Sequence[Data | None]
    ) -> list[StoredJob | Newer | str | None]:
        """Return what was read under these uuids; learn which clients there are, and how many jobs were deleted."""
        if sessions is None or deleted is None:
            raise missing(self._layout.sessions)
        if not self._sessions.are_known_at(sessions.stat):
            self._sessions.refresh()
        self.deletions = version = deleted.stat.version
        return [decode_read(uuid, one, version) for uuid, one in zip(uuids, data, strict=True)]

    def read_jobs_and(
        self, uuids: Sequence[str], paths: Sequence[str]
    ) -> tuple[list[StoredJob | None], list[Data | None]]:
        """Return jobs, and what is under these paths at the same moment, by one request."""
        fixed = [self._layout.sessions, self._layout.deleted]
        sessions, deleted, *found = self._connection.read_many([*fixed, *map(self._layout.job, uuids), *paths])
        jobs = self._decoded(uuids, sessions, deleted, found[: len(uuids)])
        return _readable(jobs), found[len(uuids) :]

    def read_jobs(self, uuids: Sequence[str]) -> list[StoredJob | None]:
        """Return the jobs of these uuids; None where there is none, or none that this client reads."""
        return _readable(self.read(uuids))

    def decoded(self, uuids: Sequence[str], deleted: Data | None, data: Sequence[Data | None]) -> list[StoredJob]:
        """Return the jobs in what was read under these uuids together with, and after, what counts deletions."""
        if deleted is None:
            return []
        self.deletions = version = deleted.stat.version
        found = (decode_read(uuid, one, version) for uuid, one in zip(uuids, data, strict=True))
        return [job for job in found if isinstance(job, StoredJob)]

    def read_deletions(self) -> None:
        """Learn how many times jobs have been deleted by now."""
        deleted = self._connection.read_one(self._layout.deleted)
        if deleted is not None:
            self.deletions = deleted.stat.version

    def read_long_values(self, jobs: Sequence[StoredJob]) -> list[StoredJob]:
        """Read the long values of these jobs, and return those jobs of which some do not exist any more."""
        torn: dict[str, StoredJob] = {}
        wanted = [(job, field, blob) for job in jobs for field, blob in job.blobs.items() if not getattr(job, field)]
        for start in range(0, len(wanted), MAX_BLOB_READS):
            part = wanted[start : start + MAX_BLOB_READS]
            found = self._connection.read_many((self._layout.blob(blob) for _, _, blob in part), is_fresh=False)
            for (job, field, _), data in zip(part, found, strict=True):
                if data is None:
                    torn[job.uuid] = job
                else:
                    setattr(job, field, data.data.decode() if field == "last_error" else data.data)
        return list(torn.values())


def _readable(found: Sequence[StoredJob | Newer | str | None]) -> list[StoredJob | None]:
    return [one if isinstance(one, StoredJob) else None for one in found]
