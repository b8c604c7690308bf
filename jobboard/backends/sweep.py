"""Brings the lanes of a changed limit to what it says."""

from __future__ import annotations

from collections.abc import Iterable

from jobboard.backends.lane_rows import LimitRow
from jobboard.backends.limit_store import LimitStore

#: How many lanes one request looks at, at most.
LANES_PER_LOOK = 100

#: How many looks a sweep takes at a lane at most; the next sweep goes on.
MAX_LOOKS = 10_000


def sweep(store: LimitStore, rows: Iterable[LimitRow]) -> None:
    """Bring the lanes of each pending limit to what it says; what a killed client has begun goes on here.

    Each lane is looked at until it is as its limit says, in requests of at most 100 lanes.
    """
    for row in rows:
        if row.is_pending and row.limit.lane is not None:
            _sweep_lanes(store, row.limit.lane)
            store.finish(row)


def _sweep_lanes(store: LimitStore, pattern: str) -> None:
    cursor: object | None = None
    is_first = True
    while is_first or cursor is not None:
        is_first = False
        page = store.lanes(pattern, cursor, LANES_PER_LOOK)
        lanes, cursor = page.lanes, page.cursor
        for _ in range(MAX_LOOKS):
            lanes = store.look(lanes) if lanes else []
            if not lanes:
                break
