"""What time does to jobs, and what others have left to do: whoever comes next does it, up to a bound."""

from __future__ import annotations

import itertools

from jobboard.backends import lifecycle
from jobboard.backends.rows import JobRow
from jobboard.backends.sql import job_statements, journal_statements, lanes
from jobboard.backends.sql.contradictions import MEND
from jobboard.backends.sql.floors import is_place_below_floors
from jobboard.backends.sql.journal_lines import journal_line
from jobboard.backends.sql.kept_time import prolong
from jobboard.backends.sql.lane_limits import LimitsOfJobs
from jobboard.backends.sql.lane_looks import MAX_LANES, LaneStep
from jobboard.backends.sql.resolving import work_off
from jobboard.backends.sql.rows import columns_of, job_of
from jobboard.backends.sql.transaction import BoardStatus, Transaction
from jobboard.backends.sql.transitions import carry_out, end_step, save
from jobboard.backends.transition import Note
from jobboard.events import EventKind
from jobboard.states import JobState

#: One transaction expires and promotes at most this many times ``MAX_PER_ROUND`` jobs.
MAX_ROUNDS = 10


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
    status = status_of(transaction)
    for _ in range(MAX_ROUNDS if status.is_any_job_due else 0):
        if max(_promote(transaction), _expire(transaction)) < job_statements.MAX_PER_ROUND:
            break
    if status.is_any_mark_due or transaction.marked:
        work_off(transaction)


def _promote(transaction: Transaction) -> int:
    """Promote by one statement, which does what ``lifecycle.promote`` does to one job."""
    promoted = transaction.change(job_statements.PROMOTE)
    transaction.notifies |= bool(promoted)
    transaction.is_below_floors |= any(is_place_below_floors(place, transaction.now) for *_, place in promoted)
    note = Note(EventKind.DUE, None, transaction.now)
    lines = [journal_line(number, uuid, name, note) for number, uuid, name, _ in promoted]
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
    in_lanes, others = ([job for job in tied if (job.lane is not None) is has_lane] for has_lane in (True, False))
    if in_lanes and lanes.lock(transaction):
        _look_at_lanes_of(transaction, in_lanes)
    step = LaneStep(transaction)
    _move_on(transaction, others, step)
    end_step(transaction, step)
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
    end_step(transaction, step)


def _move_on(transaction: Transaction, tied: list[JobRow], step: LaneStep) -> list[JobRow]:
    """Bring jobs up to now that time changes; of the others, which are returned, say when it does."""
    due = [job for job in tied if lifecycle.is_due(job, transaction.now)]
    others = [job for job in tied if not lifecycle.is_due(job, transaction.now)]
    transaction.run_many(lanes.DUE, [columns_of(job) for job in others])
    limits = LimitsOfJobs(transaction, due)
    changes = [(job, lifecycle.expire_or_promote(job, transaction.now, limits.of(job))) for job in due]
    carry_out(transaction, job_statements.SAVE, changes, step)
    return others
