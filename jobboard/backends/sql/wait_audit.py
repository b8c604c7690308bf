"""Live jobs that would wait for ever, or past their moments, and how each is mended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import select

from jobboard.backends import lifecycle, waiting
from jobboard.backends.findings import AuditFinding
from jobboard.backends.rows import JobRow
from jobboard.backends.sql import lanes
from jobboard.backends.sql.job_conditions import CLAIMED, COMPLETE, mine
from jobboard.backends.sql.job_statements import SMALL_JOB
from jobboard.backends.sql.rows import Row, columns_of, due_of, job_of
from jobboard.backends.sql.schema import jobs
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.step_statements import SENT
from jobboard.backends.sql.stored_jobs import LockedJobs
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.transitions import save
from jobboard.states import JobState

#: The jobs that have ties and wait for something.
TIED = Statement(
    select(*SMALL_JOB)
    .where(mine, jobs.c.state < COMPLETE, jobs.c.state != CLAIMED, jobs.c.ties.is_not(None))
    .order_by(jobs.c.id)
)


def audit_waits(transaction: Transaction, repair: bool) -> list[AuditFinding]:
    """Find jobs whose moment is not known, or that wait for a signal that was sent; mend them if told to."""
    rows = transaction.rows(TIED)
    late = [job_of(row) for row in rows if _is_late(row)]
    told = _told(transaction, map(job_of, rows))
    if repair:
        # Others may have claimed them since they were read.
        locked = LockedJobs.lock(transaction, [*(job.uuid for job in late), *told])
        as_now = [job for each in late if (job := locked.get(each.uuid)) is not None]
        transaction.run_many(lanes.DUE, [columns_of(job) for job in as_now])
        found = [job for job in map(locked.get, told) if job is not None and _signal_of(job) is not None]
        save(transaction, [(job, waiting.signal(job, _signal_of(job) or "", None, transaction.now)) for job in found])
    return [
        *(AuditFinding(job.uuid, "its moment comes before the one at which it is looked at", repair) for job in late),
        *(AuditFinding(uuid, "it waits for a signal that was sent", repair) for uuid in told),
    ]


def _is_late(row: Row) -> bool:
    moment, stored = lifecycle.due_at(job_of(row)), due_of(row)
    return moment is not None and (stored is None or stored > moment)


def _told(transaction: Transaction, found: Iterable[JobRow]) -> Sequence[str]:
    """Return those of these jobs, by their uuids, that wait for a signal that was sent."""
    wanted = {(job.uuid, signal) for job in found if (signal := _signal_of(job)) is not None}
    if not wanted:
        return []
    sent = transaction.rows(SENT, uuids=transaction.list_of(sorted({uuid for uuid, _ in wanted})))
    return [uuid for uuid, name in sent if (uuid, name) in wanted]


def _signal_of(job: JobRow) -> str | None:
    """Return the signal that a job waits for."""
    return job.ties.signal if job.ties is not None and job.state is JobState.BLOCKED else None
