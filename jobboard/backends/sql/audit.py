"""Rows that contradict themselves, and how each is mended."""

from __future__ import annotations

from sqlalchemy import case, delete, exists, func, not_, select

from jobboard.backends.findings import AuditFinding
from jobboard.backends.sql import lanes
from jobboard.backends.sql.contradictions import CONTRADICTIONS, MEND
from jobboard.backends.sql.edge_audit import DROP_ORPHANED_EDGES, ORPHANED_EDGES, audit_edges
from jobboard.backends.sql.lane_audit import audit_lanes
from jobboard.backends.sql.rows import job_of
from jobboard.backends.sql.schema import book_entries, books, jobs, journal
from jobboard.backends.sql.sequences import behind_their_rows
from jobboard.backends.sql.statement import Statement, either, p
from jobboard.backends.sql.step_statements import (
    DROP_ORPHANED_SIGNALS,
    DROP_ORPHANED_STEPS,
    ORPHANED_SIGNALS,
    ORPHANED_STEPS,
)
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.wait_audit import audit_waits
from jobboard.backends.sql.windows import audit_windows

# Not by NOT IN: a server without memory for all ids would read them all for every line.
_has_id = exists().where(jobs.c.id == journal.c.job).correlate(journal)
_has_uuid = (
    exists()
    .where(jobs.c.board == journal.c.board, jobs.c.uuid == journal.c.uuid, jobs.c.id == journal.c.job)
    .correlate(journal)
)
_of_no_job = (
    (journal.c.board == p("board"))
    & journal.c.job.is_not(None)
    # Lines of an older version have no uuid.
    & either(not_(_has_id), postgresql=case((journal.c.uuid.is_(None), not_(_has_id)), else_=not_(_has_uuid)))
)
ORPHANED_LINES = Statement(select(func.count()).select_from(journal).where(_of_no_job))
_DROP_ORPHANED_LINES = Statement(delete(journal).where(_of_no_job))


_of_no_book = (book_entries.c.board == p("board")) & not_(
    exists().where(books.c.board == book_entries.c.board, books.c.uuid == book_entries.c.uuid).correlate(book_entries)
)
ORPHANED_ENTRIES = Statement(select(func.count()).select_from(book_entries).where(_of_no_book))
_DROP_ORPHANED_ENTRIES = Statement(delete(book_entries).where(_of_no_book))


def audit(transaction: Transaction, repair: bool) -> list[AuditFinding]:
    """Find every contradiction, and mend it if told to."""
    found: list[AuditFinding] = []
    if repair:
        lanes.wait_for_lock(transaction)
    wrong: dict[int, str] = {}
    for problem, statement in CONTRADICTIONS.items():
        for job in map(job_of, transaction.rows(statement)):
            found.append(AuditFinding(job.uuid, problem, repair))
            wrong[job.sequence] = job.uuid
    if repair:
        for sequence, uuid in wrong.items():
            transaction.run(MEND, id=sequence, uuid=uuid)
    found += audit_lanes(transaction, repair)
    found += _drop(transaction, repair, ORPHANED_LINES, _DROP_ORPHANED_LINES, "lines of history belong to no job")
    found += _drop(transaction, repair, ORPHANED_ENTRIES, _DROP_ORPHANED_ENTRIES, "entries belong to no logbook")
    found += audit_waits(transaction, repair)
    found += audit_edges(transaction, repair)
    found += _drop(transaction, repair, ORPHANED_EDGES, DROP_ORPHANED_EDGES, "edges belong to no job")
    found += _drop(transaction, repair, ORPHANED_STEPS, DROP_ORPHANED_STEPS, "steps belong to no job")
    found += _drop(transaction, repair, ORPHANED_SIGNALS, DROP_ORPHANED_SIGNALS, "signals belong to no job")
    found += audit_windows(transaction, repair)
    # Only the owner of the tables may mend these.
    found += [AuditFinding(None, problem) for problem in behind_their_rows(transaction)]
    return found


def _drop(
    transaction: Transaction, repair: bool, count: Statement, drop: Statement, problem: str
) -> list[AuditFinding]:
    (orphans,) = transaction.row(count) or (0,)
    if orphans and repair:
        transaction.run(drop)
    return [AuditFinding(None, f"{orphans} {problem}", repair)] if orphans else []
