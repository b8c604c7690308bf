"""Strict lanes that wait for a job that runs again later: its retries keep the slot, and others wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobboard.backends.lane_rows import LaneRow
from jobboard.backends.rows import JobRow
from jobboard.board import client_of
from jobboard.board.limits import limit_of
from jobboard.limit import Limit
from jobboard.naming import named
from jobboard.states import JobState
from jobboard.text import duration, in_one_line

if TYPE_CHECKING:
    from jobboard.board import JobBoard

#: How many such lanes are looked at, and jobs of each.
MAX_HELD_LANES, _HOLDERS = 5, 20


@dataclass(frozen=True, slots=True)
class HeldLane:
    """A strict lane whose jobs wait for one that has failed, or has asked to run again.

    :ivar blocked: how many wait.
    :ivar oldest: for how many seconds the first of them does.
    :ivar uuid: that job.
    :ivar failures: how often it failed.
    :ivar text: what it does now, and its last error.
    """

    lane: str
    blocked: int
    oldest: float
    uuid: str
    failures: int
    text: str


def held_lanes(board: JobBoard, longest: Sequence[LaneRow], limits: Iterable[Limit], now: float) -> Iterator[HeldLane]:
    """Yield such lanes, of those with the most jobs that wait: a request for each strict one with a retry, 5 at most.

    :param longest: these lanes.
    :param limits: all of the board.
    :param now: the moment, by the store's clock.
    :raises BoardUnavailable: the store can't be reached.
    """
    client, by_lane = client_of(board), {limit.lane: limit for limit in limits if limit.lane is not None}
    retrying = [lane for lane in longest if lane.blocked and lane.retrying]
    strict = [lane for lane in retrying if (limit := limit_of(lane.lane, by_lane)) and limit.order == "strict"]
    for lane in strict[:MAX_HELD_LANES]:
        holders = client.call(client.backend.limits.lane, lane.lane, _HOLDERS).holders
        holder = max(holders, key=lambda row: (_failures(row), row.state is JobState.DELAYED), default=None)
        if holder is not None:
            oldest = 0.0 if lane.oldest is None else max(0.0, now - lane.oldest)
            text = failing_text(holder, now)
            yield HeldLane(lane.lane, lane.blocked, oldest, holder.uuid, _failures(holder), text)


def _failures(row: JobRow) -> int:
    return row.attempts - (row.state is JobState.CLAIMED)


def failing_text(row: JobRow, now: float) -> str:
    """Say what a job of a strict lane does that has failed, or runs again later: its retry, and its last error."""
    failures = _failures(row)
    if row.state is JobState.DELAYED:
        left = duration(max(0.0, (row.run_at or row.place) - now))
        does = f"waits {left} for its retry" if failures > 0 else f"has asked to run again, in {left}"
        does += ", and keeps the slot"
    else:
        does = "runs again" if row.state is JobState.CLAIMED else "can be claimed again"
    error = in_one_line((row.last_error or "").strip().rpartition("\n")[2])
    failed = f"; it failed {failures} time{'s' * (failures != 1)}" if failures > 0 else ""
    return f"{named(row)} {does}{failed}{f', the last error: {error}' if error else ''}"
