"""The table of lanes: which live jobs of a lane hold its slots, which wait, and in which order.

A claim changes nothing here: a job that is claimable has its slot already.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Text, case, cast, delete, func, insert, join, literal_column, select, update

from jobboard.backends.lanes import MAX_MOVES, is_retrying
from jobboard.backends.rows import JobRow
from jobboard.backends.sql.job_conditions import BLOCKED, CLAIMED, UNCLAIMED, in_state, is_one_of, row, this
from jobboard.backends.sql.job_statements import REPLACED, SAVED, SMALL_JOB
from jobboard.backends.sql.rows import place_of
from jobboard.backends.sql.schema import HOLDS_SLOT, RETRYING, boards, jobs, lanes
from jobboard.backends.sql.statement import Statement, either, in_list, p, parameters, put
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.transition import Transition
from jobboard.events import EventKind
from jobboard.states import LIVE, JobState

_PLACE = parameters("board", "uuid", "job", "lane", "turn", "blocked_name")
_ENTER, _JOIN = Statement(insert(lanes).inline().values(_PLACE)), put(lanes, ["board", "uuid"], _PLACE)
_MOVE = Statement(
    update(lanes)
    .where(lanes.c.board == p("board"), lanes.c.uuid == p("uuid"))
    .values(parameters("turn", "blocked_name"))
)
_LEAVE = Statement(delete(lanes).where(lanes.c.board == p("board"), in_list(lanes.c.uuid, "uuids")))

#: After these a job may have joined its lane that had not.
_JOINS = {EventKind.RESTORED, EventKind.RESOLVED, EventKind.SIGNALLED, EventKind.DUE}

# -- looking -----------------------------------------------------------------------------------------------------------

_board = select(boards.c.id).where(boards.c.id == p("board"))
_LOCK_BOARD = Statement(_board.with_for_update(skip_locked=True))
_WAIT_FOR_BOARD = Statement(_board.with_for_update())

_last_holder: Any = literal_column(str(RETRYING))
of_lane = (lanes.c.board == p("board")) & (lanes.c.lane == p("lane"))
is_waiting = lanes.c.turn > _last_holder
in_order = (lanes.c.turn, lanes.c.job)
_IN_LANE = (lanes.c.board, lanes.c.lane, lanes.c.uuid, lanes.c.turn, lanes.c.job)
#: One more than a look admits.
MOST_BLOCKED = MAX_MOVES + 1


def by_lane(wanted: Any) -> Any:
    return wanted.with_hint(lanes, "FORCE INDEX (jobboard_lane)", "mysql")


def joined(places: Any) -> Any:
    """The jobs of places in lanes."""
    is_its = (jobs.c.board == places.c.board) & (jobs.c.uuid == places.c.uuid)
    return join(places, jobs, either(is_its, postgresql=is_one_of(places)))


def of_turn(turn: Any) -> Any:
    """The places of a lane whose turn is this, in order: else a planner that knows only other boards takes all of the
    board's places, since it expects one."""
    return by_lane(select(*_IN_LANE).where(of_lane, turn).order_by(*in_order)).subquery("placed")


#: Whose slots are held, or will be again.
holders = of_turn(lanes.c.turn <= _last_holder)
#: How many of them wait for a retry.
count_of_retrying = func.count(case((holders.c.turn == _last_holder, jobs.c.id)))
#: Whose jobs are UNCLAIMED or CLAIMED.
slots = of_turn(lanes.c.turn == literal_column(str(HOLDS_SLOT)))
_waiting = by_lane(select(lanes.c.uuid).where(of_lane, is_waiting).order_by(*in_order))
_first_waiting = _waiting.limit(MOST_BLOCKED).subquery("waiting")
_claimable: Any = case((jobs.c.state == UNCLAIMED, jobs.c.place))
#: Of a lane how many jobs are claimed, how many claimable, how many wait for a retry; the last claimable one's place;
#: and how many are BLOCKED, up to ``MOST_BLOCKED``.
COUNT = Statement(
    select(
        cast(p("lane"), Text),
        func.count(case((jobs.c.state == CLAIMED, jobs.c.id))),
        func.count(_claimable),
        count_of_retrying,
        func.max(_claimable),
        select(func.count()).select_from(_first_waiting).scalar_subquery(),
    ).select_from(joined(holders))
)
_locked = select(*SMALL_JOB).limit(p("limit"))
# What others have locked is passed over. On PostgreSQL the lanes' own rows stay free.
_for_update: dict[str, Any] = {"of": jobs, "skip_locked": True}
#: The first jobs that wait, in the order of their lane.
LOCK_BLOCKED = Statement(
    by_lane(
        _locked.select_from(joined(lanes))
        .where(of_lane, is_waiting, in_state(BLOCKED))
        .order_by(*in_order)
        .with_for_update(**_for_update)
    )
)
#: The last that are claimable, the last one first.
LOCK_CLAIMABLE = Statement(
    _locked.select_from(joined(slots))
    .where(in_state(UNCLAIMED))
    .order_by(jobs.c.place.desc(), jobs.c.id.desc())
    .with_for_update(**_for_update)
)
#: Moves a job of a lane; its ties say since when it waits.
SAVE = Statement(update(jobs).where(row).values(SAVED | parameters("ties")))
REPLACE = Statement(update(jobs).where(row).values(REPLACED | parameters("ties")))
#: Sets when a row is due by its own time, or when its lane must be looked at.
DUE = Statement(update(jobs).where(row).values(due_at=p("due_at")))
_FIRST = Statement(_waiting.limit(1))
_DUE_IF_BLOCKED = Statement(update(jobs).where(this, jobs.c.state == BLOCKED).values(due_at=p("now")))


def move(transaction: Transaction, changes: Iterable[tuple[JobRow, Transition[Any]]]) -> None:
    """Let changed jobs stand where they belong; a claim changes nothing."""
    back: list[JobRow] = []
    moved: list[JobRow] = []
    gone: list[str] = []
    for job, change in changes:
        if job.ties is None or job.ties.lane is None or job.state is JobState.CLAIMED:
            continue
        if job.state not in LIVE or job.joined_lane is None:
            gone.append(job.uuid)
        else:
            (back if change.told[0].kind in _JOINS else moved).append(job)
    transaction.run_many(_JOIN, [_row_of(job) for job in back])
    place(transaction, moved)
    if gone:
        leave(transaction, gone)


def enter(transaction: Transaction, new: Iterable[JobRow]) -> None:
    """Note the lanes that new jobs have joined, or will once their delay is over."""
    transaction.run_many(_ENTER, [_row_of(job) for job in new if job.joined_lane is not None])


def place(transaction: Transaction, moved: Iterable[JobRow]) -> None:
    """Give jobs of lanes their turns."""
    transaction.run_many(_MOVE, [_row_of(job) for job in moved])


def leave(transaction: Transaction, uuids: Iterable[str]) -> None:
    """Forget the lanes of jobs that are not on the board any more, or wait for something else."""
    transaction.run(_LEAVE, uuids=transaction.list_of(uuids))


def stored_place(job: JobRow) -> tuple[str | None, int | None, str | None]:
    """Return what stands in the columns ``lane``, ``turn`` and ``blocked_name`` of a job with ties."""
    if job.joined_lane is None:
        return None, None, None
    row = _row_of(job)
    return row["lane"], row["turn"], row["blocked_name"]


def _row_of(job: JobRow) -> dict[str, Any]:
    blocked_name = job.name if job.state is JobState.BLOCKED else None
    return {
        "uuid": job.uuid, "job": job.sequence, "lane": job.lane, "turn": _turn_of(job), "blocked_name": blocked_name
    }  # fmt: skip


def _turn_of(job: JobRow) -> int | None:
    if job.state is JobState.BLOCKED:
        return place_of(job.priority, job.place)
    if job.state is JobState.DELAYED:
        return RETRYING if is_retrying(job) else None
    return HOLDS_SLOT


def lock(transaction: Transaction) -> bool:
    """Return whether this transaction may look at lanes, until it ends; it waits for no other one that does.

    A transaction that waits here, while it has locked jobs, might wait for one that waits for those jobs.
    """
    return bool(transaction.rows(_LOCK_BOARD))


def wait_for_lock(transaction: Transaction) -> None:
    """Have this transaction look at lanes, or change a limit, until it ends; only for one that has locked no job."""
    transaction.rows(_WAIT_FOR_BOARD)


def look_later(transaction: Transaction, names: Sequence[str]) -> None:
    """Have lanes looked at by whatever expires and promotes next, for rows of theirs that are going to be deleted."""
    for lane in names:
        for (uuid,) in transaction.rows(_FIRST, lane=lane):
            transaction.run(_DUE_IF_BLOCKED, uuid=uuid)
