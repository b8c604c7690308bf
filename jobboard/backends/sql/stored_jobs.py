"""Jobs as a transaction has read and locked them."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends import lifecycle
from jobboard.backends.rows import Consumption, Fence, JobRow, Trashing, is_by
from jobboard.backends.sql import job_statements, journal_statements
from jobboard.backends.sql.kept_time import prolong
from jobboard.backends.sql.lane_limits import LimitsOfJobs
from jobboard.backends.sql.rows import SMALL_TYPES, Row, read_job
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.transition import Note
from jobboard.events import EventKind


class StoredJob(JobRow):
    """A job as a transaction has read it, without what may be large."""

    transaction: Transaction
    #: What this transaction tells of it, and may not have written yet.
    told: tuple[Note, ...] = ()

    def has_note(self, kinds: tuple[EventKind, ...], token: int | None = None, who: str | None = None) -> bool:
        names = self.transaction.list_of(kind.value for kind in kinds)
        written = self.transaction.rows(journal_statements.NOTES, id=self.sequence, kinds=names)
        notes = [*written, *((note.token, note.who) for note in self.told if note.kind in kinds)]
        return any(is_by(token, who, *note) for note in notes)


class LockedJobs:
    """Some jobs, locked until the transaction ends. A request of a batch sees what earlier ones made of a job."""

    def __init__(self, transaction: Transaction, rows: list[Row]) -> None:
        self._now = transaction.now
        self._jobs: dict[str, StoredJob] = {}
        for row in rows:
            job = read_job(StoredJob, row, SMALL_TYPES)
            job.transaction = transaction
            self._jobs[job.uuid] = job
        prolong(transaction, self._jobs.values())
        self.limits = LimitsOfJobs(transaction, self._jobs.values())

    @classmethod
    def lock(cls, transaction: Transaction, uuids: Sequence[str]) -> LockedJobs:
        """Read and lock the jobs that have these uuids."""
        if len(uuids) == 1:
            # The snapshot of a user's transaction may be older than the job.
            rows = [] if transaction.moves_others else transaction.rows(job_statements.LOCK_ROW, uuid=uuids[0])
            return cls(transaction, rows or transaction.rows(job_statements.LOCK, uuid=uuids[0]))
        listed = transaction.list_of(dict.fromkeys(uuids))
        return cls(transaction, transaction.rows(job_statements.LOCK_MANY, uuids=listed) if uuids else [])

    @classmethod
    def lock_free(cls, transaction: Transaction, uuids: Sequence[str]) -> tuple[LockedJobs, LockedJobs]:
        """Lock the jobs that no other transaction has locked; return them, and then the others, which are only read."""
        free = cls(transaction, transaction.rows(job_statements.LOCK_FREE, uuids=transaction.list_of(uuids)))
        others = [uuid for uuid in uuids if uuid not in free._jobs]
        rows = transaction.rows(job_statements.READ_LOCKED, uuids=transaction.list_of(others)) if others else []
        return free, cls(transaction, rows)

    def get(self, uuid: str) -> StoredJob | None:
        return self._jobs.get(uuid)

    def of_end(self, end: Consumption | Trashing) -> StoredJob | None:
        """Return the job that an end is about; one of its fence, if it has one."""
        if end.fence is not None:
            return self.under(end.fence)
        return self.get(end.uuid) if isinstance(end, Trashing) else None

    def put_back(self, job: StoredJob) -> None:
        """Know a job again as it was before a change that is undone."""
        self._jobs[job.uuid] = job

    def under(self, fence: Fence) -> StoredJob | None:
        """Return the job of a fence; not claimed if the claim's time is over, even if no transaction has ended it."""
        job = self._jobs.get(fence.uuid)
        if job is not None and lifecycle.is_due(job, self._now):
            # Another transaction had locked it when this one ended all others; only the copy read here is changed.
            lifecycle.expire_or_promote(job, self._now, self.limits.of(job))
        return job
