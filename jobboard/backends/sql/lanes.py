"""The slots of lanes: which job of a lane holds its slot, and which one is admitted to it next.

A transaction that may have freed a slot, or that wants one, looks at the lane after it has written its rows. One
transaction of a board looks at a time, so that each sees what the one before it has admitted. A transaction that may
not look (another one does, or it is the user's) lets its rows be due at once; whatever expires and promotes next looks
at the lanes of such rows. So what is committed after a look has a row that is due.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import case, delete, func, insert, or_, select, update

from jobboard.backends.rows import JobRow
from jobboard.backends.sql.job_conditions import BLOCKED, CLAIMED, COMPLETE, TRASHED, UNCLAIMED, one_of, row, this
from jobboard.backends.sql.job_statements import SMALL_JOB
from jobboard.backends.sql.rows import job_of, place_of
from jobboard.backends.sql.schema import HOLDS_SLOT, boards, jobs, lanes
from jobboard.backends.sql.statement import Statement, in_list, p, parameters
from jobboard.backends.sql.transaction import Transaction
from jobboard.states import JobState

_ENTER = Statement(insert(lanes).inline().values(parameters("board", "uuid", "job", "lane", "turn")))
_MOVE = Statement(
    update(lanes).where(lanes.c.board == p("board"), lanes.c.uuid == p("uuid")).values(parameters("turn"))
)
LEAVE = Statement(delete(lanes).where(lanes.c.board == p("board"), in_list(lanes.c.uuid, "uuids")))
_LOCK_BOARD = Statement(select(boards.c.id).where(boards.c.id == p("board")).with_for_update(skip_locked=True))
_of_lane = (lanes.c.board == p("board")) & (lanes.c.lane == p("lane"))
#: The job that holds a lane's slot, and the next ones; others may have locked the first of these.
HEADS = Statement(
    select(lanes.c.uuid, lanes.c.turn)
    .where(_of_lane, lanes.c.turn.is_not(None))
    .order_by(lanes.c.turn, lanes.c.job)
    .limit(10)
    .with_hint(lanes, "FORCE INDEX (jobboard_lane)", "mysql")
)
_is_blocked = this & (jobs.c.state == BLOCKED)
_LOCK_IF_BLOCKED = Statement(select(*SMALL_JOB).where(_is_blocked).with_for_update(skip_locked=True))
#: Sets when a row is due by its own time, or at once so that its lane is looked at.
DUE = Statement(update(jobs).where(row).values(due_at=p("due_at")))
_DUE_IF_BLOCKED = Statement(update(jobs).where(_is_blocked).values(due_at=p("now")))


_holds_slot = one_of(jobs.c.state, UNCLAIMED, CLAIMED)
_is_due = or_(one_of(jobs.c.state, BLOCKED, COMPLETE, TRASHED), jobs.c.due_at < jobs.c.run_at)
_its_turn: Any = case((_holds_slot, HOLDS_SLOT), (jobs.c.state == BLOCKED, jobs.c.place))
_joined = (jobs.c.board == lanes.c.board) & (jobs.c.uuid == lanes.c.uuid)
#: Of each lane how many jobs hold its slot, how many are BLOCKED, how many rows are due so that it is looked at, and
#: how many jobs have another turn than theirs.
NUMBERS = Statement(
    select(
        lanes.c.lane,
        func.count(case((_holds_slot, jobs.c.id))),
        func.count(case((jobs.c.state == BLOCKED, jobs.c.id))),
        func.count(case((_is_due, jobs.c.due_at))),
        func.count(case((lanes.c.turn.is_distinct_from(_its_turn), jobs.c.id))),
    )
    .select_from(lanes)
    .join(jobs, _joined)
    .where(lanes.c.board == p("board"))
    .group_by(lanes.c.lane)
)
#: Gives the jobs of a lane their turns.
MEND_TURNS = Statement(update(lanes).where(_of_lane).values(turn=select(_its_turn).where(_joined).scalar_subquery()))
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
    transaction.run_many(_ENTER, _rows_of(new))


def move(transaction: Transaction, changed: Iterable[JobRow]) -> None:
    """Give changed jobs their turns; a claim changes none."""
    transaction.run_many(_MOVE, _rows_of(job for job in changed if job.state is not JobState.CLAIMED))


def _rows_of(some: Iterable[JobRow]) -> list[dict[str, Any]]:
    return [
        {"uuid": job.uuid, "job": job.sequence, "lane": job.ties.lane, "turn": _turn_of(job)}
        for job in some
        if job.ties is not None
    ]


def _turn_of(job: JobRow) -> int | None:
    if job.state is JobState.BLOCKED:
        return place_of(job.priority, job.place)
    return HOLDS_SLOT if job.state is JobState.UNCLAIMED else None


def lock(transaction: Transaction) -> bool:
    """Return whether this transaction may look at lanes, until it ends; it waits for no other one that does.

    A transaction that waits here, while it has locked jobs, might wait for one that waits for those jobs.
    """
    return bool(transaction.rows(_LOCK_BOARD))


def look(transaction: Transaction, lane: str) -> tuple[bool, JobRow | None]:
    """Return whether all is known of a lane, and the job that it admits next, locked.

    Jobs that other transactions have locked are passed over. Not all is known if there are no others.
    """
    found = transaction.rows(HEADS, lane=lane)
    if not found or found[0][1] == HOLDS_SLOT:
        return True, None
    for uuid, _ in found:
        for locked in transaction.rows(_LOCK_IF_BLOCKED, uuid=uuid):
            return True, job_of(locked)
    return False, None


def look_later(transaction: Transaction, lane: str) -> None:
    """Have a lane looked at by whatever expires and promotes next, for a row of it that is going to be deleted."""
    for uuid, _ in transaction.rows(HEADS, lane=lane)[:1]:
        transaction.run(_DUE_IF_BLOCKED, uuid=uuid)
