"""The limits of a board in SQL, and the lanes that they are of."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Text, case, cast, delete, func, insert, select, update

from jobboard.backends.lane_rows import LaneDetail, LanePage, LaneRow, LimitRow
from jobboard.backends.lanes import starts_in
from jobboard.backends.limit_store import LimitStore
from jobboard.backends.limits import pack_limit
from jobboard.backends.rows import Verdict
from jobboard.backends.sql import admin_statements, lanes
from jobboard.backends.sql.database import Transactions
from jobboard.backends.sql.expiry import expire_and_promote
from jobboard.backends.sql.job_conditions import CLAIMED, UNCLAIMED
from jobboard.backends.sql.job_statements import JOB
from jobboard.backends.sql.journal_lines import journal_event, write_events
from jobboard.backends.sql.lane_limits import NEXT_STARTS, readable_limits, rules_of
from jobboard.backends.sql.lane_looks import LaneLook
from jobboard.backends.sql.reading import up_to_date
from jobboard.backends.sql.rows import job_of, priority_and_moment
from jobboard.backends.sql.schema import jobs, limits
from jobboard.backends.sql.schema import lanes as places
from jobboard.backends.sql.statement import Statement, p, parameters
from jobboard.backends.sql.transaction import Transaction
from jobboard.events import EventKind
from jobboard.limit import ANY_LANE, is_lane_of

_this = (limits.c.board == p("board")) & (limits.c.scope == p("scope")) & (limits.c.pattern == p("pattern"))
ALL = Statement(select(limits.c.scope, limits.c.pattern, limits.c.body).where(limits.c.board == p("board")))
FIND = Statement(select(limits.c.version).where(_this).with_for_update())
ADD = Statement(insert(limits).values(parameters("board", "scope", "pattern", "version", "running", "body")))
CHANGE = Statement(update(limits).where(_this).values(parameters("version", "running", "body")))
DELETE = Statement(delete(limits).where(_this))

# -- lanes -------------------------------------------------------------------------------------------------------------

_mine = places.c.board == p("board")
_lanes = select(places.c.lane).where(_mine, places.c.lane > p("after")).group_by(places.c.lane).order_by(places.c.lane)
#: The next lanes after one, up to another; with live jobs, since the table has no others.
NEXT_LANES = Statement(lanes.by_lane(_lanes.where(places.c.lane <= p("last")).limit(p("size"))))
HAS_JOBS = Statement(lanes.by_lane(select(places.c.lane).where(lanes.of_lane).limit(1)))
LONGEST = Statement(
    select(places.c.lane)
    .where(_mine)
    .group_by(places.c.lane)
    .order_by(func.count(places.c.blocked_name).desc(), places.c.lane)
    .limit(p("limit"))
)
_waiting = lanes.by_lane(select(func.count()).where(lanes.of_lane, lanes.is_waiting))
_first = lanes.by_lane(select(func.min(places.c.turn)).where(lanes.of_lane, lanes.is_waiting))
#: What makes a LaneRow, but that the last one is the first BLOCKED job's place with its priority.
LANE = Statement(
    select(
        cast(p("lane"), Text),
        func.count(case((jobs.c.state == CLAIMED, jobs.c.id))),
        func.count(case((jobs.c.state == UNCLAIMED, jobs.c.id))),
        lanes.count_of_retrying,
        _waiting.scalar_subquery(),
        _first.scalar_subquery(),
    ).select_from(lanes.joined(lanes.holders))
)
HOLDERS = Statement(
    select(*JOB)
    .select_from(lanes.joined(lanes.holders))
    .order_by(lanes.holders.c.turn, lanes.holders.c.job)
    .limit(p("limit"))
)
#: After each lane that begins with the same text.
_LAST = "\U0010ffff"


class Limits(LimitStore):
    """Limits of names and lanes, and how lanes stand."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def all(self) -> list[LimitRow]:
        with self._transactions.read() as transaction:
            return all_limits(transaction)

    def put(self, row: LimitRow, after: str | None) -> Verdict:
        with self._transactions.write() as transaction:
            # So that no look goes by the limits before this one once it is committed.
            lanes.wait_for_lock(transaction)
            scope, pattern = row.key
            stored = transaction.row(FIND, scope=scope, pattern=pattern)
            verdict = row.verdict(None if stored is None else stored[0], after)
            if verdict is Verdict.DONE:
                _write(transaction, row, is_new=stored is None)
            return verdict

    def finish(self, row: LimitRow) -> None:
        with self._transactions.write() as transaction:
            lanes.wait_for_lock(transaction)
            scope, pattern = row.key
            if transaction.row(FIND, scope=scope, pattern=pattern) == (row.version,):
                _put(transaction, LimitRow(row.limit, row.version), is_new=False)

    def lanes(self, pattern: str, cursor: object | None, size: int) -> LanePage:
        prefix = pattern.removesuffix(ANY_LANE[1:])
        with self._transactions.read() as transaction:
            if prefix == pattern:
                return LanePage([name for (name,) in transaction.rows(HAS_JOBS, lane=pattern)], None)
            after = cursor if isinstance(cursor, str) else prefix
            found = [name for (name,) in transaction.rows(NEXT_LANES, after=after, last=prefix + _LAST, size=size)]
        wanted = [name for name in found if is_lane_of(name, pattern)]
        return LanePage(wanted, found[-1] if len(found) == size else None)

    def longest(self, count: int) -> list[LaneRow]:
        with up_to_date(self._transactions) as transaction:
            names = [name for (name,) in transaction.rows(LONGEST, limit=count)]
            return _rows_of(transaction, names)

    def lane(self, lane: str, count: int) -> LaneDetail:
        with up_to_date(self._transactions) as transaction:
            [row] = _rows_of(transaction, [lane])
            holders = [job_of(found) for found in transaction.rows(HOLDERS, lane=lane, limit=count)]
            return LaneDetail(row, holders, _next_in(transaction, lane))

    def look(self, names: Sequence[str]) -> list[str]:
        with self._transactions.write() as transaction:
            lanes.wait_for_lock(transaction)
            expire_and_promote(transaction)
            look = LaneLook(transaction, names, {}, {})
            look.take()
            return sorted(look.unfinished)


def all_limits(transaction: Transaction) -> list[LimitRow]:
    return list(readable_limits(transaction.rows(ALL)))


def _write(transaction: Transaction, row: LimitRow, is_new: bool) -> None:
    limit = row.limit
    _put(transaction, row, is_new)
    if limit.lane is None:
        name = str(limit.name)
        if limit.running is None:
            transaction.run(admin_statements.UNLIMIT_NAME, name=name)
        elif not transaction.rows(admin_statements.IS_PAUSED, name=name):
            transaction.run(admin_statements.LIMIT_NAME, name=name, running=limit.running)
    write_events(transaction, [journal_event(EventKind.LIMITED, None, limit.name, limit.by, str(limit))])


def _put(transaction: Transaction, row: LimitRow, is_new: bool) -> None:
    """Store a limit, or forget one that limits nothing once no lane has to be looked at for it."""
    scope, pattern = row.key
    key = {"scope": scope, "pattern": pattern}
    if row.limit.is_empty and not row.is_pending:
        transaction.run(DELETE, **key)
        return
    statement = ADD if is_new else CHANGE
    body = pack_limit(row)
    transaction.run(statement, **key, version=row.version, running=row.limit.running, body=body)


def _rows_of(transaction: Transaction, names: Sequence[str]) -> list[LaneRow]:
    # Jobs may be blocked on a board without lanes: MySQL refuses to run no statement at all.
    found = transaction.rows_of_each([LANE], [{"lane": name} for name in names]) if names else []
    return [
        LaneRow(lane, claimed, claimable, retrying, blocked, None if first is None else priority_and_moment(first)[1])
        for lane, claimed, claimable, retrying, blocked, first in found
    ]


def _next_in(transaction: Transaction, lane: str) -> float | None:
    rate = rules_of(transaction, [lane]).of_lane(lane).rate
    if rate is None:
        return None
    known = transaction.rows(NEXT_STARTS, lanes=transaction.list_of([lane]))
    next_at = known[0][1] if known else 0.0
    return starts_in(next_at, rate, transaction.now)
