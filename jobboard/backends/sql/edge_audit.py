"""Edges that contradict the jobs at their ends, jobs that nothing holds back any more, and how each is mended."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from sqlalchemy import delete, exists, func, not_, select

from jobboard.backends.edge_rows import Outcome
from jobboard.backends.edges import settle
from jobboard.backends.findings import AuditFinding
from jobboard.backends.outcomes import edge_to
from jobboard.backends.rows import JobRow, Ties
from jobboard.backends.sql import edge_statements, marks, new_edges
from jobboard.backends.sql.job_conditions import COMPLETE, TRASHED
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

_of_parent = (jobs.c.board == edges.c.board) & (jobs.c.uuid == edges.c.parent)
_is_live = exists().where(_of_parent, jobs.c.state < COMPLETE)
_is_in_trash = exists().where(_of_parent, jobs.c.state == TRASHED)
_has_mark = exists().where(marked.c.board == edges.c.board, marked.c.parent == edges.c.parent)


def _untold(outcome: Outcome, still: Any) -> Statement:
    """Find edges that say something of a parent which is not so any more, and which nobody tells them later either."""
    return Statement(
        select(edges.c.child, edges.c.parent).where(
            edges.c.board == p("board"),
            edges.c.outcome == OUTCOME_CODES[outcome],
            not_(still.correlate(edges)),
            not_(_has_mark.correlate(edges)),
        )
    )


#: That it has not ended, which is not on the board; and that it is in the trash, which is not there.
STALE, BACK = _untold(Outcome.OPEN, _is_live), _untold(Outcome.FAILED, _is_in_trash)


def audit_edges(transaction: Transaction, repair: bool) -> list[AuditFinding]:
    """Find jobs that would wait for parents for ever, and mend them if told to."""
    stale, tied = transaction.rows(STALE), list(map(job_of, transaction.rows(TIED)))
    waiting = {job.uuid: job for job in tied if job.ties is not None and job.ties.has_parents}
    # One that went on without its parents waits for none of them.
    back = [(child, parent) for child, parent in transaction.rows(BACK) if child in waiting]
    free = _held_back_by_nothing(transaction, waiting.values())
    idle = [job for job in tied if _waits_for_nothing(job)]
    if repair:
        _tell(transaction, sorted({parent for _, parent in (*stale, *back)}))
        # What they waited for can't be read, but their parents are known by their edges.
        idle_again = [replace(job, ties=replace(job.ties or Ties(), has_parents=True)) for job in idle]
        transaction.run_many(edge_statements.SET_TIES, [columns_of(job) for job in idle_again])
        _settle(transaction, [*free, *(job.uuid for job in idle)])
    return [
        *(AuditFinding(job.uuid, "it is blocked, but waits for nothing", repair) for job in idle),
        *(AuditFinding(child, f"it waits for job {parent}, which has ended", repair) for child, parent in stale),
        *(
            AuditFinding(child, f"it waits for job {parent} in the trash, which is not there", repair)
            for child, parent in back
        ),
        *(AuditFinding(uuid, "it waits for parents, none of which holds it back", repair) for uuid in free),
    ]


def _waits_for_nothing(job: JobRow) -> bool:
    return job.state is JobState.BLOCKED and job.ties is not None and job.ties.lane is None and not job.ties.is_waiting


def _held_back_by_nothing(transaction: Transaction, waiting: Collection[JobRow]) -> list[str]:
    standing = standing_of(transaction, waiting) if waiting else {}
    return [job.uuid for job in waiting if settle(copy(job), standing[job.uuid], transaction.now) is not None]


def _tell(transaction: Transaction, parents: Sequence[str]) -> None:
    """Let edges say how their parents stand; one that is gone can't come back."""
    found = new_edges.lock(transaction, parents)
    marks.write(transaction, [_mark_of(parent, found.get(parent)) for parent in parents])
    work_off(transaction)


def _mark_of(parent: str, job: JobRow | None) -> Resolve:
    if job is None:
        return Resolve(parent, Outcome.GONE)
    edge = edge_to("", job)
    return Resolve(parent, edge.outcome, edge.name, edge.result, edge.is_cut)


def _settle(transaction: Transaction, uuids: Sequence[str]) -> None:
    locked = new_edges.lock(transaction, uuids)
    standing = standing_of(transaction, locked.values()) if locked else {}
    changes = [(job, settle(job, standing[uuid], transaction.now)) for uuid, job in locked.items()]
    save(transaction, [(job, change) for job, change in changes if change is not None])
