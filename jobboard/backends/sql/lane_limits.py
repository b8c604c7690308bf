"""Which limits hold for the lanes that a transaction has to do with."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator

from sqlalchemy import delete, exists, literal_column, select

from jobboard.backends.lane_rows import LimitRow
from jobboard.backends.limits import UNLIMITED, LaneLimit, Rules, unpack_limit
from jobboard.backends.rows import JobRow
from jobboard.backends.sql.rows import Row
from jobboard.backends.sql.schema import lanes, limits, rates
from jobboard.backends.sql.statement import Statement, in_list, p, parameters, put
from jobboard.backends.sql.transaction import Transaction
from jobboard.limit import prefix_of

LIMITS_OF = Statement(
    select(limits.c.scope, limits.c.pattern, limits.c.body).where(
        limits.c.board == p("board"), limits.c.scope == literal_column("'lane'"), in_list(limits.c.pattern, "patterns")
    )
)
NEXT_STARTS = Statement(
    select(rates.c.lane, rates.c.next_at, rates.c.offered).where(
        rates.c.board == p("board"), in_list(rates.c.lane, "lanes")
    )
)
PUT_NEXT_START = put(rates, ["board", "lane"], parameters("board", "lane", "next_at", "offered"))
#: Of a rate whose moment is over nothing is left to remember, unless jobs were offered that may start unseen.
FORGET_STARTS = Statement(
    delete(rates).where(
        rates.c.board == p("board"),
        rates.c.next_at <= p("now"),
        (rates.c.offered == 0) | ~exists().where(lanes.c.board == rates.c.board, lanes.c.lane == rates.c.lane),
    )
)


def rules_of(transaction: Transaction, lanes: Iterable[str]) -> Rules:
    """Return the limits of these lanes."""
    return Rules(readable_limits(_rows_of(transaction, lanes)))


def unlimited_lanes(transaction: Transaction, lanes: Collection[str]) -> set[str]:
    """Return those of these lanes that no limit is about, also none that is to be removed."""
    patterns = {pattern for _, pattern, _ in _rows_of(transaction, lanes)}
    return {lane for lane in lanes if patterns.isdisjoint((lane, prefix_of(lane)))}


def _rows_of(transaction: Transaction, lanes: Iterable[str]) -> list[Row]:
    patterns = {pattern for lane in lanes for pattern in (lane, prefix_of(lane)) if pattern is not None}
    return transaction.rows(LIMITS_OF, patterns=transaction.list_of(sorted(patterns))) if patterns else []


def readable_limits(rows: Iterable[Row]) -> Iterator[LimitRow]:
    """Yield the limits of rows that have a scope, a pattern and a body; those that nobody can decode are left out."""
    for scope, pattern, body in rows:
        with contextlib.suppress(ValueError, TypeError):
            yield unpack_limit(scope, pattern, bytes(body))


class LimitsOfJobs:
    """The limits of the lanes of some jobs; they are read when the first one is asked for, and not without lanes."""

    def __init__(self, transaction: Transaction, jobs: Iterable[JobRow]) -> None:
        self._transaction = transaction
        self._lanes = {job.lane for job in jobs if job.lane is not None}
        self._rules: Rules | None = None

    def of(self, job: JobRow | None) -> LaneLimit:
        """Return what holds for the lane of a job."""
        if job is None or job.lane is None:
            return UNLIMITED
        if self._rules is None:
            self._rules = rules_of(self._transaction, self._lanes)
        return self._rules.of_lane(job.lane)
