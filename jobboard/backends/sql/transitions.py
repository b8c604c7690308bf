"""Jobs that are read, locked and changed by the rules of a job's life, each change with its lines in the journal."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from jobboard.backends import lifecycle
from jobboard.backends.rows import Fence, JobRow
from jobboard.backends.sql import job_statements, journal_statements, lanes
from jobboard.backends.sql.contradictions import MEND
from jobboard.backends.sql.journal_lines import journal_line
from jobboard.backends.sql.kept_time import prolong
from jobboard.backends.sql.lane_limits import LimitsOfJobs
from jobboard.backends.sql.lane_looks import MAX_LANES, LaneStep
from jobboard.backends.sql.name_limits import are_any_limited
from jobboard.backends.sql.rows import SMALL_TYPES, Row, columns_of, job_of, read_job
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.tokens import was_claimed_often
from jobboard.backends.sql.transaction import BoardStatus, Transaction
from jobboard.backends.transition import Note, Transition
from jobboard.events import EventKind
from jobboard.states import JobState

A = TypeVar("A")

#: One transaction expires and promotes at most this many times ``MAX_PER_ROUND`` jobs.
MAX_ROUNDS = 10

#: What an owner does while it has the claim, or at its end: no other process waits for it, and histories stay short.
_BY_OWNER = {EventKind.CLAIMED, EventKind.CONSUMED, EventKind.EXTENDED, EventKind.CHECKPOINTED}


class StoredJob(JobRow):
    """A job as a transaction has read it, without what may be large."""

    transaction: Transaction
    #: What this transaction tells of it, and may not have written yet.
    told: tuple[Note, ...] = ()

    def has_note(self, kinds: tuple[EventKind, ...], token: int | None = None, who: str | None = None) -> bool:
        names = self.transaction.list_of(kind.value for kind in kinds)
        written = self.transaction.rows(journal_statements.NOTES, id=self.sequence, kinds=names)
        notes = [*written, *((note.token, note.who) for note in self.told if note.kind in kinds)]
        return any(token in (None, its_token) and who in (None, its_who) for its_token, its_who in notes)


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

    def under(self, fence: Fence) -> StoredJob | None:
        """Return the job of a fence; not claimed if the claim's time is over, even if no transaction has ended it."""
        job = self._jobs.get(fence.uuid)
        if job is not None and lifecycle.is_due(job, self._now):
            # Another transaction had locked it when this one ended all others; only the copy read here is changed.
            lifecycle.expire_or_promote(job, self._now, self.limits.of(job))
        return job


#: The same of a job with ties, which it changes too.
_OF_TIED = {job_statements.SAVE: lanes.SAVE, job_statements.REPLACE: lanes.REPLACE}


def carry_out(
    transaction: Transaction,
    statement: Statement,
    changes: Iterable[tuple[JobRow | None, Transition[A]]],
    step: LaneStep | None = None,
) -> list[A]:
    """Write changed jobs by a statement, with their lines in the journal; return the answers.

    :param step: the step that this is a part of, if that ends later.
    """
    answers: list[A] = []
    changed: list[tuple[JobRow, Transition[A]]] = []
    for job, change in changes:
        answers.append(change.answer)
        if job is not None and change.told:
            changed.append((job, change))
            if isinstance(job, StoredJob):
                job.told += change.told
    if changed:
        own_step = step or LaneStep(transaction)
        _write(transaction, statement, changed, own_step)
        if step is None:
            own_step.end()
    return answers


def _write(
    transaction: Transaction, statement: Statement, changed: list[tuple[JobRow, Transition[A]]], step: LaneStep
) -> None:
    rows: list[dict[str, Any]] = []
    tied: list[dict[str, Any]] = []
    for job, change in changed:
        row = columns_of(job)
        row["retain_until"] = transaction.now + change.retention if job.state is JobState.COMPLETE else None
        (rows if job.ties is None else tied).append(row)
        step.add(job, change, row)
    kinds = {change.told[0].kind for _, change in changed}
    lines = [journal_line(job.sequence, job.uuid, job.name, note) for job, change in changed for note in change.told]
    with transaction.together():
        transaction.run_many(statement, rows)
        transaction.run_many(_OF_TIED.get(statement, statement), tied)
        lanes.move(transaction, changed)
        transaction.run_many(journal_statements.WRITE_HISTORY, lines)
    transaction.notifies |= bool(kinds - _BY_OWNER or tied) or _frees_names(transaction, kinds, changed)
    moved = [job for job, change in changed if change.told[0].kind not in _BY_OWNER]
    long = [{"id": job.sequence} for job in moved if was_claimed_often(job.token)]
    transaction.run_many(journal_statements.TRIM_HISTORY, long)


def _frees_names(transaction: Transaction, kinds: set[EventKind], changed: list[tuple[JobRow, Transition[A]]]) -> bool:
    """Whether somebody may wait until a name has fewer claims."""
    return EventKind.CONSUMED in kinds and are_any_limited(transaction, {job.name for job, _ in changed})


def save(transaction: Transaction, changes: Iterable[tuple[JobRow | None, Transition[A]]]) -> list[A]:
    """Write jobs that have moved to another state."""
    return carry_out(transaction, job_statements.SAVE, changes)


# -- what time does ----------------------------------------------------------------------------------------------------


def expire_and_promote(transaction: Transaction) -> None:
    """Expire claims and promote delayed jobs; if there are none, this costs one read of an index."""
    if transaction.moves_others and is_any_due(transaction):
        expire_and_promote_due(transaction)


def is_any_due(transaction: Transaction) -> bool:
    return status_of(transaction).is_any_due


def status_of(transaction: Transaction) -> BoardStatus:
    """Return what is due and barred on the board; it is read once in a transaction."""
    if transaction.status is None:
        [status] = transaction.rows(job_statements.STATUS)
        transaction.status = BoardStatus(*map(bool, status))
    return transaction.status


def expire_and_promote_due(transaction: Transaction) -> None:
    """Expire and promote what is due, up to a bound; the transactions after this one go on with the rest."""
    for _ in range(MAX_ROUNDS):
        if max(_promote(transaction), _expire(transaction)) < job_statements.MAX_PER_ROUND:
            return


def _promote(transaction: Transaction) -> int:
    """Promote by one statement, which does what ``lifecycle.promote`` does to one job."""
    promoted = transaction.change(job_statements.PROMOTE)
    transaction.notifies |= bool(promoted)
    note = Note(EventKind.DUE, None, transaction.now)
    lines = [journal_line(number, uuid, name, note) for number, uuid, name in promoted]
    transaction.run_many(journal_statements.WRITE_HISTORY, lines)
    return len(promoted)


def _expire(transaction: Transaction) -> int:
    jobs = [job_of(row) for row in transaction.rows(job_statements.OVERDUE)]
    claimed = [job for job in jobs if job.state is JobState.CLAIMED]
    kept = {job.sequence: job for job in prolong(transaction, claimed)}
    over = [job for job in claimed if job.sequence not in kept]
    limits = LimitsOfJobs(transaction, over)
    save(transaction, [(job, lifecycle.expire(job, transaction.now, limit=limits.of(job))) for job in over])
    transaction.run_many(job_statements.KEEP, [columns_of(job) for job in kept.values()])
    tied = [job for job in jobs if job.ties is not None and job.state is not JobState.CLAIMED]
    in_lanes = [job for job in tied if job.lane is not None]
    if in_lanes and lanes.lock(transaction):
        _look_at_lanes_of(transaction, in_lanes)
    _move_on(transaction, [job for job in tied if job.lane is None], LaneStep(transaction))
    # A row that contradicts itself must not hold up the others.
    wrong = [job for job in jobs if job.state is not JobState.CLAIMED and job.ties is None]
    transaction.run_many(MEND, [{"id": job.sequence, "uuid": job.uuid} for job in wrong])
    return len(jobs)


def _look_at_lanes_of(transaction: Transaction, tied: list[JobRow]) -> None:
    """Bring those jobs up to now that time changes; look at the lanes of these, and of jobs that are due for that."""
    names = dict.fromkeys(job.lane for job in tied)
    seen = set(itertools.islice(names, MAX_LANES))
    step = LaneStep(transaction)
    step.look_at(_move_on(transaction, [job for job in tied if job.lane in seen], step))
    step.end()


def _move_on(transaction: Transaction, tied: list[JobRow], step: LaneStep) -> list[JobRow]:
    """Bring jobs up to now that time changes; of the others, which are returned, say when it does."""
    due = [job for job in tied if lifecycle.is_due(job, transaction.now)]
    others = [job for job in tied if not lifecycle.is_due(job, transaction.now)]
    transaction.run_many(lanes.DUE, [columns_of(job) for job in others])
    limits = LimitsOfJobs(transaction, due)
    changes = [(job, lifecycle.expire_or_promote(job, transaction.now, limits.of(job))) for job in due]
    carry_out(transaction, job_statements.SAVE, changes, step)
    return others
