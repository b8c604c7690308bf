"""Brings the lanes of a changed limit to what it says; a pause that has ended changes one."""

from __future__ import annotations

from collections.abc import Iterable

from jobboard.backends.lane_rows import LimitRow
from jobboard.backends.limit_store import LimitStore
from jobboard.backends.rows import Verdict
from jobboard.validation import moment

#: How many lanes one request looks at, at most.
LANES_PER_LOOK = 100

#: How many requests a sweep makes for one limit at most, some ten million lanes; the next sweep begins anew.
MAX_REQUESTS = 100_000


def tidy_limits(store: LimitStore, rows: Iterable[LimitRow], now: float) -> None:
    """Forget pauses that have ended by now, and go on with what killed clients have begun."""
    sweep(store, (_at(store, row, now) for row in rows))


def _at(store: LimitStore, row: LimitRow, now: float) -> LimitRow:
    limit = row.limit.at_moment(moment(now))
    if limit == row.limit or row.is_pending:
        return row
    # Each shard of a board may be the first to see it, and all of them must come to one version.
    ended = LimitRow(limit, f"{row.version} after its pause", is_pending=True)
    return row if store.put(ended, row.version) is Verdict.LOST else ended


def sweep(store: LimitStore, rows: Iterable[LimitRow]) -> None:
    """Bring the lanes of each pending limit to what it says; what a killed client has begun goes on here.

    Each lane is looked at until it is as its limit says, in requests of at most 100 lanes.
    """
    for row in rows:
        if row.is_pending and row.limit.lane is not None and _sweep_lanes(store, row.limit.lane):
            store.finish(row)


def _sweep_lanes(store: LimitStore, pattern: str) -> bool:
    """Look at the lanes of a pattern; return whether all of them are as their limit says."""
    page = store.lanes(pattern, None, LANES_PER_LOOK)
    lanes = page.lanes
    for _ in range(MAX_REQUESTS):
        if lanes:
            lanes = store.look(lanes)
        elif page.cursor is None:
            return True
        else:
            page = store.lanes(pattern, page.cursor, LANES_PER_LOOK)
            lanes = page.lanes
    return False
