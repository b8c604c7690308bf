"""Lanes that are not as their jobs and limits say, and how each is mended."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import outerjoin, select

from jobboard.backends.findings import AuditFinding
from jobboard.backends.lanes import count_problems, lanes_of
from jobboard.backends.rows import JobRow
from jobboard.backends.sql import lanes
from jobboard.backends.sql.job_conditions import CLAIMED, COMPLETE, mine
from jobboard.backends.sql.job_statements import SMALL_JOB
from jobboard.backends.sql.lane_limits import rules_of
from jobboard.backends.sql.lane_looks import look_at
from jobboard.backends.sql.rows import job_of
from jobboard.backends.sql.schema import jobs
from jobboard.backends.sql.schema import lanes as places
from jobboard.backends.sql.statement import Statement, p
from jobboard.backends.sql.transaction import Transaction

_same = (places.c.board == jobs.c.board) & (places.c.uuid == jobs.c.uuid)
_is_live = (jobs.c.state < COMPLETE) & jobs.c.ties.is_not(None)
#: The live jobs that have ties, each with its row in the table of lanes, if it is there.
TIED = Statement(
    select(*SMALL_JOB, places.c.lane, places.c.turn, places.c.blocked_name)
    .select_from(outerjoin(jobs, places, _same))
    .where(mine, _is_live)
    .order_by(jobs.c.id)
)
#: Rows of that table without such a job.
STRAY = Statement(
    select(places.c.uuid, places.c.lane)
    .select_from(outerjoin(places, jobs, _same & _is_live))
    .where(places.c.board == p("board"), jobs.c.id.is_(None))
)
#: Jobs whose lane is looked at by whatever expires and promotes next.
TO_LOOK_AT = Statement(
    select(*SMALL_JOB).where(mine, jobs.c.ties.is_not(None), jobs.c.state != CLAIMED, jobs.c.due_at <= p("now"))
)


def audit_lanes(transaction: Transaction, repair: bool) -> list[AuditFinding]:
    """Find every lane that is not as it should be, and mend it if told to, by a transaction that may look at lanes."""
    rows = transaction.rows(TIED)
    tied = [job_of(row[:-3]) for row in rows]
    wrong = [job for job, row in zip(tied, rows, strict=True) if tuple(row[-3:]) != lanes.stored_place(job)]
    stray: dict[str, str] = dict(transaction.rows(STRAY))
    found = [f"it stands in another place of the lane {_lane_of(job)!r} than its own" for job in wrong]
    findings = [AuditFinding(job.uuid, problem, repair) for job, problem in zip(wrong, found, strict=True)]
    findings += [AuditFinding(uuid, f"only the lane {lane!r} knows of it", repair) for uuid, lane in stray.items()]
    if repair and (wrong or stray):
        lanes.leave(transaction, [*stray, *(job.uuid for job in wrong)])
        lanes.enter(transaction, wrong)
    for lane, problem in _problems(transaction, tied):
        findings.append(AuditFinding(None, problem, repair))
        if repair:
            look_at(transaction, {lane: next(job for job in tied if _lane_of(job) == lane)}, {}, {})
    return findings


def _problems(transaction: Transaction, tied: list[JobRow]) -> Iterator[tuple[str, str]]:
    counted = lanes_of(tied)
    due = {_lane_of(job_of(row)) for row in transaction.rows(TO_LOOK_AT)}
    rules = rules_of(transaction, counted)
    for lane, row in counted.items():
        if lane not in due:
            for problem in count_problems(row, rules):
                yield lane, problem


def _lane_of(job: JobRow) -> str:
    return "" if job.lane is None else job.lane
