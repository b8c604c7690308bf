"""Lanes: which jobs of one hold its slots, and which of them one look at it admits and withdraws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from jobboard.backends.lane_rows import LaneRow
from jobboard.backends.limits import SAME_MOMENT, LaneLimit, Rules
from jobboard.backends.rows import JobRow
from jobboard.limit import Rate
from jobboard.states import JobState


class Ranked(Protocol):
    """What a look asks of a job; its place is where it stands among the others."""

    @property
    def priority(self) -> int: ...

    @property
    def token(self) -> int: ...


Row = TypeVar("Row", bound=Ranked)

#: How many jobs one look admits and withdraws at most; the next look goes on.
MAX_MOVES = 50

#: How many lanes a claim that found too little looks at for exchanges.
MAX_EXCHANGES = 20

#: While jobs of its names are BLOCKED, a waiter looks this often whether an exchange lets one be claimed, in seconds.
EXCHANGE_POLL = 1.0


def is_holder(row: JobRow, is_strict: bool) -> bool:
    """Whether a job takes one of its lane's slots: in a strict lane also while it waits for its retry."""
    return row.state in (JobState.UNCLAIMED, JobState.CLAIMED) or (is_strict and is_retrying(row))


def is_retrying(row: JobRow) -> bool:
    """Whether a job waits for its next claim, after one that did not end it."""
    return row.state is JobState.DELAYED and row.token != 0


@dataclass(slots=True)
class LaneView(Generic[Row]):
    """A lane as a look finds it.

    :ivar held: how many jobs hold a slot that can't be taken back: the claimed ones; in a strict lane also those that
        wait for a retry.
    :ivar claimable: how many can be claimed.
    :ivar last: the last of these in claim order, the last one first; MAX_MOVES of them are enough.
    :ivar blocked: the first that wait, in the order of the lane; one more than MAX_MOVES is enough.
    :ivar next_at: the moment that its rate has come to; 0.0 at first.
    :ivar offered: how many could be claimed at the end of the last look, if its rate lets several start at once and
        there were several; else 0.
    """

    held: int
    claimable: int
    last: Sequence[Row]
    blocked: Sequence[Row]
    next_at: float = 0.0
    offered: int = 0


@dataclass(slots=True)
class LanePlan(Generic[Row]):
    """What a look at a lane does.

    :ivar withdraw: the claimable jobs that wait again.
    :ivar admit: those that can be claimed from now on, in order.
    :ivar next_at: the moment that its rate comes to.
    :ivar offered: how many the next look finds as offered.
    :ivar look_at: the moment of the next look; None: none by time.
    """

    withdraw: list[Row] = field(default_factory=list)
    admit: list[Row] = field(default_factory=list)
    next_at: float = 0.0
    look_at: float | None = None
    offered: int = 0


def plan(view: LaneView[Row], limit: LaneLimit, now: float) -> LanePlan[Row]:
    """Plan a look: what is over the limit waits again, what fits is admitted, and a better priority goes first.

    Jobs are admitted, and withdrawn, at most ``MAX_MOVES`` at a time.
    """
    steps = _planned(view, limit.at(now), now)
    if limit.is_paused_at(now) and steps.look_at is None and (view.blocked or steps.withdraw):
        steps.look_at = limit.paused_until
    return steps


def _planned(view: LaneView[Row], limit: LaneLimit, now: float) -> LanePlan[Row]:
    running = math.inf if limit.running is None else limit.running
    steps: LanePlan[Row] = LanePlan(next_at=view.next_at, offered=0 if limit.rate is None else view.offered)
    if view.held + view.claimable > running:
        excess = min(view.held + view.claimable - int(running), view.claimable)
        steps.withdraw = list(view.last[: min(excess, MAX_MOVES)])
        if excess > len(steps.withdraw):
            steps.look_at = now
        return _exchanged(view, limit, steps)
    room = int(min(max(0, running - view.held - view.claimable), len(view.blocked), MAX_MOVES))
    if limit.rate is not None:
        room = _limit_starts(view, limit.rate, steps, room, now)
    steps.admit = list(view.blocked[:room])
    if room == MAX_MOVES < len(view.blocked):
        steps.look_at = now
        return steps
    return _exchanged(view, limit, steps)


def _limit_starts(view: LaneView[Row], rate: Rate, steps: LanePlan[Row], room: int, now: float) -> int:
    """Return how many of the jobs that there is room for the rate lets start now; plan the moment of the next one.

    A job that can be claimed counts as one that starts, once it is admitted; nobody sees when it does. So those that
    the last look offered may have started just now, and time has saved up nothing beside them but one start. While as
    many wait to be claimed as may start at once, it saves up none. What a slower rate has come to before counts no more
    than a burst of this one.

    At most ``burst + 1 + t / T`` jobs start in any ``t``. Let E be the most, over all stretches that end now, of what
    could be claimed when the stretch began, and what was admitted in it, less t / T. No stretch has more starts than E
    and t / T, since a start needs a job that could be claimed or was admitted. After each look E is at most
    1 + (next_at - now) / T: time takes as much from both, but E not below what was offered, and then the next look sets
    ``next_at`` as far; an admission adds 1 to both. And no look takes ``next_at`` further than burst * T.
    """
    interval = rate.interval
    next_at = min(view.next_at, now + rate.burst * interval)
    if (offered := min(view.offered, rate.burst)) > 1:
        next_at = max(next_at, now + (offered - 1) * interval)
    count = 0
    while count < room and next_at - (rate.burst - 1) * interval <= now + SAME_MOMENT:
        if view.claimable + count >= rate.burst:
            next_at = max(next_at, now + rate.burst * interval)
            break
        next_at = max(next_at, now) + interval
        count += 1
    offered = min(view.claimable + count, rate.burst)
    steps.next_at, steps.offered = next_at, offered if offered > 1 else 0
    if count < room:
        steps.look_at = next_at - (rate.burst - 1) * interval
    return count


def starts_in(next_at: float, rate: Rate, now: float) -> float:
    """Return the seconds until a rate that has come to this moment lets another job start."""
    return max(0.0, next_at - (rate.burst - 1) * rate.interval - now)


def _exchanged(view: LaneView[Row], limit: LaneLimit, steps: LanePlan[Row]) -> LanePlan[Row]:
    """Let blocked jobs of a better priority go before claimable ones; in a strict lane, before those never claimed."""
    waiting = list(view.blocked[len(steps.admit) :])
    kept = [row for row in view.last[len(steps.withdraw) :] if not (limit.is_strict and row.token)]
    for better, worse in zip(waiting, kept, strict=False):
        if better.priority <= worse.priority or len(steps.withdraw) >= MAX_MOVES:
            break
        steps.withdraw.append(worse)
        steps.admit.append(better)
    return steps


def lanes_of(rows: Iterable[JobRow]) -> dict[str, LaneRow]:
    """Count the live jobs of each lane."""
    counts: dict[str, Counter[str]] = {}
    oldest: dict[str, JobRow] = {}
    for row in rows:
        lane = row.joined_lane
        if lane is not None:
            counts.setdefault(lane, Counter())[_count_of(row)] += 1
            if row.state is JobState.BLOCKED and (lane not in oldest or _order(row) < _order(oldest[lane])):
                oldest[lane] = row
    return {
        lane: LaneRow(
            lane, count["claimed"], count["claimable"], count["retrying"], count["blocked"],
            oldest[lane].place if lane in oldest else None,
        )
        for lane, count in counts.items()
    }  # fmt: skip


def _count_of(row: JobRow) -> str:
    if row.state is JobState.DELAYED:
        return "retrying" if row.token else "delayed"
    return _COUNTS[row.state]


_COUNTS = {JobState.BLOCKED: "blocked", JobState.UNCLAIMED: "claimable", JobState.CLAIMED: "claimed"}


def _order(row: JobRow) -> tuple[int, float, int]:
    return -row.priority, row.place, row.sequence


def count_problems(row: LaneRow, rules: Rules) -> Iterator[str]:
    """Say what an audit finds wrong with a lane, which was looked at when it had to be."""
    if rules.are_pending(row.lane):
        return
    limit = rules.of_lane(row.lane)
    held = row.claimed + (row.retrying if limit.is_strict else 0)
    running = math.inf if limit.running is None else limit.running
    if row.claimable and held + row.claimable > running:
        yield f"the lane {row.lane!r} has {held + row.claimable} jobs that are claimable or claimed, of {running}"
    is_timed = limit.rate is not None or limit.paused_until is not None
    if row.blocked and held + row.claimable < running and not is_timed:
        yield f"a slot of the lane {row.lane!r} is free, and {row.blocked} of its jobs are BLOCKED"
