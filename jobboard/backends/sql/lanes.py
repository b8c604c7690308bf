"""The slots of lanes: which job of a lane holds its slot, and which one is admitted to it next.

A transaction that may have freed a slot, or that wants one, looks at the lane after it has written its rows. One
transaction of a board looks at a time, so that each sees what the one before it has admitted. A transaction that may
not look (another one does, or it is the user's) lets its rows be due at once; whatever expires and promotes next looks
at the lanes of such rows. So what is committed after a look has a row that is due.
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
_LOCK_BOARD = Statement(select(boards.c.id).where(boards.c.id == p("board")).with_for_update(skip_locked=True))
_joined = (jobs.c.board == lanes.c.board) & (jobs.c.uuid == lanes.c.uuid)
_of_lane = (lanes.c.board == p("board")) & (lanes.c.lane == p("lane"))
_members = select(jobs.c.uuid).join(lanes, _joined).where(_of_lane)
_HOLDER = Statement(_members.where(one_of(jobs.c.state, UNCLAIMED, CLAIMED)).limit(1))
#: The next jobs of a lane: others may have locked the first ones.
_NEXT = Statement(_members.where(jobs.c.state == BLOCKED).order_by(jobs.c.place, jobs.c.id).limit(10))
_is_blocked = this & (jobs.c.state == BLOCKED)
_LOCK_IF_BLOCKED = Statement(select(*SMALL_JOB).where(_is_blocked).with_for_update(skip_locked=True))
#: Sets when a row is due by its own time, or at once so that its lane is looked at.
DUE = Statement(update(jobs).where(row).values(due_at=p("due_at")))
_DUE_IF_BLOCKED = Statement(update(jobs).where(_is_blocked).values(due_at=p("now")))


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


def lock(transaction: Transaction) -> bool:
    """Return whether this transaction may look at lanes, until it ends; it waits for no other one that does.

    A transaction that waits here, while it has locked jobs, might wait for one that waits for those jobs.
    """
    return bool(transaction.rows(_LOCK_BOARD))


def look(transaction: Transaction, lane: str) -> tuple[bool, JobRow | None]:
    """Return whether all is known of a lane, and the job that it admits next, locked.

    Jobs that other transactions have locked are passed over. Not all is known if there are no others.
    """
    if transaction.rows(_HOLDER, lane=lane):
        return True, None
    found = transaction.rows(_NEXT, lane=lane)
    for (uuid,) in found:
        for locked in transaction.rows(_LOCK_IF_BLOCKED, uuid=uuid):
            return True, job_of(locked)
    return not found, None


def look_later(transaction: Transaction, lane: str) -> None:
    """Have a lane looked at by whatever expires and promotes next, for a row of it that is going to be deleted."""
    for (uuid,) in transaction.rows(_NEXT, lane=lane)[:1]:
        transaction.run(_DUE_IF_BLOCKED, uuid=uuid)
