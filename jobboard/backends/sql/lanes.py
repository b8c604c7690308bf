"""The slots of lanes: which job of a lane holds its slot, and which one is admitted to it next.

What may have freed a slot, or may want it, lets its own row be due at once, in the step that changes it. Whatever
expires and promotes next looks at the lanes of such rows. One transaction of a board looks at a time, so that each sees
what the one before it has admitted; and what is committed after a look has a row that is due.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import case, delete, func, insert, or_, select, update

from jobboard.backends.rows import JobRow
from jobboard.backends.sql.job_conditions import BLOCKED, CLAIMED, COMPLETE, TRASHED, UNCLAIMED, one_of, row, this
from jobboard.backends.sql.job_statements import SMALL_JOB
from jobboard.backends.sql.rows import job_of
from jobboard.backends.sql.schema import boards, jobs, lanes
from jobboard.backends.sql.statement import Statement, in_list, p
from jobboard.backends.sql.transaction import Transaction

_ENTER = Statement(insert(lanes).inline().values(board=p("board"), uuid=p("uuid"), lane=p("lane")))
LEAVE = Statement(delete(lanes).where(lanes.c.board == p("board"), in_list(lanes.c.uuid, "uuids")))
LOCK_BOARD = Statement(select(boards.c.id).where(boards.c.id == p("board")).with_for_update())
_joined = (jobs.c.board == lanes.c.board) & (jobs.c.uuid == lanes.c.uuid)
_of_lane = (lanes.c.board == p("board")) & (lanes.c.lane == p("lane"))
_members = select(*SMALL_JOB).join(lanes, _joined).where(_of_lane)
_HOLDER = Statement(_members.where(one_of(jobs.c.state, UNCLAIMED, CLAIMED)).limit(1))
_NEXT = Statement(_members.where(jobs.c.state == BLOCKED).order_by(jobs.c.place, jobs.c.id).limit(1))
_LOCK_IF_BLOCKED = Statement(select(jobs.c.id).where(this, jobs.c.state == BLOCKED).with_for_update(skip_locked=True))
#: A lane need not be looked at for this row any more; a delayed job is due by its own time again.
SEEN = Statement(update(jobs).where(row).values(due_at=p("due_at")))


_is_due = or_(one_of(jobs.c.state, BLOCKED, COMPLETE, TRASHED), jobs.c.due_at < jobs.c.run_at)
#: Of each lane how many jobs hold its slot, how many are BLOCKED, and how many rows are due so that it is looked at.
NUMBERS = Statement(
    select(
        lanes.c.lane,
        func.count(case((one_of(jobs.c.state, UNCLAIMED, CLAIMED), jobs.c.id))),
        func.count(case((jobs.c.state == BLOCKED, jobs.c.id))),
        func.count(case((_is_due, jobs.c.due_at))),
    )
    .select_from(lanes)
    .join(jobs, _joined)
    .where(lanes.c.board == p("board"))
    .group_by(lanes.c.lane)
)
#: Lets a lane be looked at, and all of its jobs wait for that but the claimed one.
WAIT = Statement(
    update(jobs)
    .where(
        jobs.c.board == p("board"),
        one_of(jobs.c.state, BLOCKED, UNCLAIMED),
        jobs.c.uuid.in_(select(lanes.c.uuid).where(_of_lane)),
    )
    .values(state=BLOCKED, due_at=p("now"))
)


def enter(transaction: Transaction, new: Iterable[JobRow]) -> None:
    """Note the lanes of new jobs."""
    transaction.run_many(_ENTER, [{"uuid": job.uuid, "lane": job.ties.lane} for job in new if job.ties is not None])


def look(transaction: Transaction, lane: str) -> tuple[bool, JobRow | None]:
    """Return whether all is known of a lane, and the job that it admits next, locked.

    Not all is known while another transaction has locked that job.
    """
    if transaction.rows(_HOLDER, lane=lane):
        return True, None
    for found in transaction.rows(_NEXT, lane=lane):
        job = job_of(found)
        return (True, job) if transaction.rows(_LOCK_IF_BLOCKED, uuid=job.uuid) else (False, None)
    return True, None
