"""Edges that contradict the jobs at their ends, jobs that nothing holds back any more, and how each is mended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace

from sqlalchemy import delete, exists, func, not_, select

from jobboard.backends.edge_rows import Outcome
from jobboard.backends.edges import settle
from jobboard.backends.findings import AuditFinding
from jobboard.backends.outcomes import edge_to
from jobboard.backends.rows import JobRow, Ties
from jobboard.backends.sql import edge_statements, marks, new_edges
from jobboard.backends.sql.job_conditions import COMPLETE
from jobboard.backends.sql.new_edges import standing_of
from jobboard.backends.sql.resolving import work_off
from jobboard.backends.sql.rows import columns_of, job_of
from jobboard.backends.sql.schema import OUTCOME_CODES, edges, jobs
from jobboard.backends.sql.schema import marks as marked
from jobboard.backends.sql.statement import Statement, p
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.transitions import save
from jobboard.backends.sql.wait_audit import TIED
from jobboard.backends.transition import Resolve
from jobboard.states import JobState

_of_no_job = (edges.c.board == p("board")) & not_(
    exists().where(jobs.c.board == edges.c.board, jobs.c.uuid == edges.c.child).correlate(edges)
)
ORPHANED_EDGES = Statement(select(func.count()).select_from(edges).where(_of_no_job))
DROP_ORPHANED_EDGES = Statement(delete(edges).where(_of_no_job))

_is_live = exists().where(jobs.c.board == edges.c.board, jobs.c.uuid == edges.c.parent, jobs.c.state < COMPLETE)
_has_mark = exists().where(marked.c.board == edges.c.board, marked.c.parent == edges.c.parent)
#: Edges that say that a parent has not ended which is not on the board, and whose end is not told later either.
STALE = Statement(
    select(edges.c.child, edges.c.parent).where(
        edges.c.board == p("board"),
        edges.c.outcome == OUTCOME_CODES[Outcome.OPEN],
        not_(_is_live.correlate(edges)),
        not_(_has_mark.correlate(edges)),
    )
)


def audit_edges(transaction: Transaction, repair: bool) -> list[AuditFinding]:
    """Find jobs that would wait for parents for ever, and mend them if told to."""
    stale, tied = transaction.rows(STALE), list(map(job_of, transaction.rows(TIED)))
    free = _held_back_by_nothing(transaction, tied)
    idle = [job for job in tied if _waits_for_nothing(job)]
    if repair:
        _tell_ends(transaction, sorted({parent for _, parent in stale}))
        # What they waited for can't be read, but their parents are known by their edges.
        idle_again = [replace(job, ties=replace(job.ties or Ties(), has_parents=True)) for job in idle]
        transaction.run_many(edge_statements.SET_TIES, [columns_of(job) for job in idle_again])
        _settle(transaction, [*free, *(job.uuid for job in idle)])
    return [
        *(AuditFinding(job.uuid, "it is blocked, but waits for nothing", repair) for job in idle),
        *(AuditFinding(child, f"it waits for job {parent}, which has ended", repair) for child, parent in stale),
        *(AuditFinding(uuid, "it waits for parents, none of which holds it back", repair) for uuid in free),
    ]


def _waits_for_nothing(job: JobRow) -> bool:
    return job.state is JobState.BLOCKED and job.ties is not None and job.ties.lane is None and not job.ties.is_waiting


def _held_back_by_nothing(transaction: Transaction, found: Iterable[JobRow]) -> list[str]:
    waiting = [job for job in found if job.ties is not None and job.ties.has_parents]
    standing = standing_of(transaction, waiting) if waiting else {}
    return [job.uuid for job in waiting if settle(copy(job), standing[job.uuid], transaction.now) is not None]


def _tell_ends(transaction: Transaction, parents: Sequence[str]) -> None:
    """Let edges say how their parents have ended; one that is gone can't come back."""
    found = new_edges.lock(transaction, parents)
    marks.write(transaction, [_end_of(parent, found.get(parent)) for parent in parents])
    work_off(transaction)


def _end_of(parent: str, job: JobRow | None) -> Resolve:
    if job is None:
        return Resolve(parent, Outcome.GONE)
    edge = edge_to("", job)
    return Resolve(parent, edge.outcome, edge.name, edge.result, edge.is_cut)


def _settle(transaction: Transaction, uuids: Sequence[str]) -> None:
    locked = new_edges.lock(transaction, uuids)
    standing = standing_of(transaction, locked.values()) if locked else {}
    changes = [(job, settle(job, standing[uuid], transaction.now)) for uuid, job in locked.items()]
    save(transaction, [(job, change) for job, change in changes if change is not None])
