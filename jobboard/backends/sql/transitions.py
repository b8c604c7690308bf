"""Jobs that are read, locked and changed by the rules of a job's life, each change with its lines in the journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from jobboard.backends import admission, lifecycle
from jobboard.backends.lanes import HOLDS_SLOT
from jobboard.backends.rows import Fence, JobRow
from jobboard.backends.sql import job_statements, journal_statements, lanes
from jobboard.backends.sql.audit import MEND
from jobboard.backends.sql.kept_time import prolong
from jobboard.backends.sql.rows import SMALL_TYPES, Row, columns_of, job_of, read_job
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.tokens import was_claimed_often
from jobboard.backends.sql.transaction import Transaction
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
            lifecycle.expire_or_promote(job, self._now)
        return job


def carry_out(
    transaction: Transaction, statement: Statement, changes: Iterable[tuple[JobRow | None, Transition[A]]]
) -> list[A]:
    """Write changed jobs by a statement, with their lines in the journal; return the answers."""
    answers: list[A] = []
    rows: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] = []
    changed: list[JobRow] = []
    moved: list[JobRow] = []
    following: list[tuple[JobRow, dict[str, Any]]] = []
    for job, change in changes:
        answers.append(change.answer)
        if job is None or not change.told:
            continue
        changed.append(job)
        if isinstance(job, StoredJob):
            job.told += change.told
        row = columns_of(job)
        row["retain_until"] = transaction.now + change.retention if job.state is JobState.COMPLETE else None
        rows.append(row)
        if change.follow:
            following.append((job, row))
        lines += [journal_line(job.sequence, job.uuid, job.name, note) for note in change.told]
        if change.told[0].kind not in _BY_OWNER:
            moved.append(job)
    with admitting(transaction, following):
        transaction.run_many(statement, rows)
        lanes.move(transaction, changed)
        transaction.run_many(journal_statements.WRITE_HISTORY, lines)
    transaction.notifies |= bool(moved) or any(row["ties"] is not None for row in rows)
    long = [{"id": job.sequence} for job in moved if was_claimed_often(job.token)]
    transaction.run_many(journal_statements.TRIM_HISTORY, long)
    return answers


def save(transaction: Transaction, changes: Iterable[tuple[JobRow | None, Transition[A]]]) -> list[A]:
    """Write jobs that have moved to another state."""
    return carry_out(transaction, job_statements.SAVE, changes)


def journal_line(sequence: int, uuid: str, name: str, note: Note) -> dict[str, Any]:
    """Return a line of a job; not every database's lines have the uuid and the name."""
    job = {"job": sequence, "uuid": uuid, "name": name}
    return job | {"kind": note.kind.value, "who": note.who, "token": note.token, "reason": note.reason}


def journal_event(
    kind: EventKind, uuid: str | None, name: str | None, who: str | None = None, reason: str | None = None
) -> dict[str, Any]:
    """Return a line that belongs to no job (any more)."""
    return {"kind": kind.value, "uuid": uuid, "name": name, "who": who, "reason": reason}


def write_events(transaction: Transaction, events: Sequence[dict[str, Any]]) -> None:
    """Write lines that belong to no job, all at once."""
    transaction.notifies |= bool(events)
    transaction.run_many(journal_statements.WRITE_EVENT, events)


# -- what time does ----------------------------------------------------------------------------------------------------


def expire_and_promote(transaction: Transaction) -> None:
    """Expire claims and promote delayed jobs; if there are none, this costs one read of an index."""
    if transaction.moves_others and is_any_due(transaction):
        expire_and_promote_due(transaction)


def is_any_due(transaction: Transaction) -> bool:
    if transaction.status is not None:
        return transaction.status.is_any_due
    return transaction.row(job_statements.IS_ANY_DUE) is not None


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
    save(transaction, [(job, lifecycle.expire(job, transaction.now)) for job in over])
    transaction.run_many(job_statements.KEEP, [columns_of(job) for job in kept.values()])
    tied = [job for job in jobs if job.ties is not None and job.state not in HOLDS_SLOT]
    if tied and lanes.lock(transaction):
        # A job whose delay is over by now must not pass those that waited when its row became due for its lane.
        unknown = _look_at_lanes(transaction, tied)
        transaction.run_many(lanes.DUE, [columns_of(job) for job in tied if job not in unknown])
        delayed = [job for job in tied if lifecycle.is_due(job, transaction.now)]
        save(transaction, [(job, lifecycle.promote(job, transaction.now)) for job in delayed])
    # A row that contradicts itself must not hold up the others.
    wrong = [job for job in jobs if job not in claimed and job not in tied]
    transaction.run_many(MEND, [{"id": job.sequence, "uuid": job.uuid} for job in wrong])
    return len(jobs)


# -- lanes -------------------------------------------------------------------------------------------------------------


@contextmanager
def admitting(transaction: Transaction, following: Sequence[tuple[JobRow, dict[str, Any]]]) -> Iterator[None]:
    """Admit the next jobs of lanes once the block has written the changed jobs.

    If this transaction may not look at lanes, the jobs are written as due at once, for whatever expires and promotes
    next.

    :param following: jobs whose lanes may admit another one now, and what is written of each.
    """
    may_look = bool(following) and transaction.moves_others and lanes.lock(transaction)
    if not may_look:
        for _, row in following:
            row["due_at"] = transaction.now
    yield
    if may_look:
        unknown = _look_at_lanes(transaction, [job for job, _ in following])
        transaction.run_many(lanes.DUE, [columns_of(job) | {"due_at": transaction.now} for job in unknown])


def _look_at_lanes(transaction: Transaction, jobs: Iterable[JobRow]) -> list[JobRow]:
    """Admit the next job of each lane of these jobs; return one job of each lane that must be looked at again."""
    of_lanes = {job.ties.lane: job for job in jobs if job.ties is not None}
    unknown = []
    for lane, job in of_lanes.items():
        is_known, admitted = lanes.look(transaction, lane)
        if not is_known:
            unknown.append(job)
        if admitted is not None:
            save(transaction, [(admitted, admission.admit(admitted, transaction.now))])
    return unknown
