"""Rows that contradict themselves, and how each is mended."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, case, cast, delete, exists, func, not_, select, update

from jobboard.backends.findings import AuditFinding
from jobboard.backends.sql import lanes
from jobboard.backends.sql.job_conditions import (
    BLOCKED,
    CLAIMED,
    COMPLETE,
    DELAYED,
    TRASHED,
    UNCLAIMED,
    mine,
    one_of,
    row,
)
from jobboard.backends.sql.job_statements import SMALL_JOB
from jobboard.backends.sql.lane_audit import audit_lanes
from jobboard.backends.sql.rows import job_of
from jobboard.backends.sql.schema import PLACES_OF_A_RANK, PLACES_OF_A_SECOND, book_entries, books, jobs, journal
from jobboard.backends.sql.sequences import behind_their_rows
from jobboard.backends.sql.statement import Statement, either, p
from jobboard.backends.sql.transaction import Transaction
from jobboard.states import JobPriority

_BEST, _WORST = -max(JobPriority), -min(JobPriority)

_stateless = not_(one_of(jobs.c.state, BLOCKED, DELAYED, UNCLAIMED, CLAIMED, COMPLETE, TRASHED))
_ownerless = (jobs.c.state == CLAIMED) & (jobs.c.owner.is_(None) | jobs.c.claim_id.is_(None))
_never_due = (jobs.c.state == DELAYED) & jobs.c.due_at.is_(None)

_no_rank = (jobs.c.rank < _BEST) | (jobs.c.rank > _WORST)
_its_rank: Any = case((jobs.c.rank < _BEST, _BEST), (jobs.c.rank > _WORST, _WORST), else_=jobs.c.rank)
# A number of 64 bits: a server would not have room for the product in one of a rank's size.
_first_place = cast(_its_rank, BigInteger) * PLACES_OF_A_RANK
_misplaced = (jobs.c.place < _first_place) | (jobs.c.place >= _first_place + PLACES_OF_A_RANK)

_CONTRADICTIONS = {
    problem: Statement(select(*SMALL_JOB).where(mine, wrong))
    for problem, wrong in {
        "it is claimed, but by nobody": _ownerless,
        "it is not claimed, but has an owner": one_of(jobs.c.state, BLOCKED, DELAYED, UNCLAIMED, TRASHED)
        & jobs.c.owner.is_not(None),
        "it is not claimed, but has a claim": one_of(jobs.c.state, BLOCKED, DELAYED, UNCLAIMED, COMPLETE, TRASHED)
        & jobs.c.claim_id.is_not(None),
        "it is delayed, but never due": _never_due,
        "it is neither delayed nor claimed, but due": one_of(jobs.c.state, UNCLAIMED, COMPLETE, TRASHED)
        & jobs.c.due_at.is_not(None)
        & jobs.c.ties.is_(None),
        "it is on the board or in the trash, but remembered as gone": one_of(
            jobs.c.state, BLOCKED, DELAYED, UNCLAIMED, CLAIMED, TRASHED
        )
        & jobs.c.retain_until.is_not(None),
        "it is gone, but remembered for ever": (jobs.c.state == COMPLETE) & jobs.c.retain_until.is_(None),
        "its state is none": _stateless,
        "its priority is none": _no_rank,
        "its place is not of its priority": not_(_no_rank) & _misplaced,
    }.items()
}

_is_held = (jobs.c.state == CLAIMED) & not_(_ownerless)
#: Mends whatever is wrong with a row. A job whose state nobody knows goes to the trash, for an operator: on the
#: board it might run twice.
MEND = Statement(
    update(jobs)
    .where(row)
    .values(
        owner=case((_is_held | (jobs.c.state == COMPLETE), jobs.c.owner)),
        claim_id=case((_is_held, jobs.c.claim_id)),
        due_at=case((_is_held | (jobs.c.state == DELAYED), jobs.c.due_at)),
        retain_until=case((jobs.c.state == COMPLETE, func.coalesce(jobs.c.retain_until, p("now")))),
        # MySQL sets one column after the other, so the rank comes last.
        place=case(
            (_misplaced, _first_place + cast(jobs.c.created_on * PLACES_OF_A_SECOND, BigInteger)),
            else_=jobs.c.place,
        ),
        rank=_its_rank,
        state=case((_stateless, TRASHED), (_ownerless | _never_due, UNCLAIMED), else_=jobs.c.state),
        last_modified=p("now"),
    )
)

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
    for problem, statement in _CONTRADICTIONS.items():
        for job in map(job_of, transaction.rows(statement)):
            found.append(AuditFinding(job.uuid, problem, repair))
            wrong[job.sequence] = job.uuid
    if repair:
        for sequence, uuid in wrong.items():
            transaction.run(MEND, id=sequence, uuid=uuid)
    found += audit_lanes(transaction, repair)
    found += _drop(transaction, repair, ORPHANED_LINES, _DROP_ORPHANED_LINES, "lines of history belong to no job")
    found += _drop(transaction, repair, ORPHANED_ENTRIES, _DROP_ORPHANED_ENTRIES, "entries belong to no logbook")
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
