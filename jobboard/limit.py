"""Limits: how many jobs of a name, of a lane, or of each lane with a prefix may run, how often, and in which order."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime

from jobboard.text import until_text
from jobboard.types import LaneOrder, Seconds
from jobboard.validation import check_count, check_seconds, check_text

#: The largest ``running``; what may run without end has no limit.
MAX_RUNNING = 1_000_000

#: The largest ``count`` and ``burst`` of a rate, and the longest ``per``, in seconds.
MAX_RATE_COUNT, MAX_BURST, MAX_PER = 1_000_000, 1_000, 30 * 86_400.0

#: What stands after the prefix in the pattern of all lanes that have it.
ANY_LANE = ":*"


@dataclass(frozen=True, slots=True, init=False)
class Rate:
    """At most ``count`` starts in ``per`` seconds, evenly spread; after a quiet time up to ``burst`` at once.

    :raises ValueError: count or burst is no whole number from 1 on, or per is not a time from above 0 to 30 days.
    """

    count: int
    per: float
    burst: int

    def __init__(self, count: int, per: Seconds, burst: int = 1) -> None:
        object.__setattr__(self, "count", check_count("count", count, 1, MAX_RATE_COUNT))
        object.__setattr__(self, "per", _check_per(per))
        object.__setattr__(self, "burst", check_count("burst", burst, 1, MAX_BURST))

    @property
    def interval(self) -> float:
        """The seconds from one start to the next."""
        return self.per / self.count

    def __str__(self) -> str:
        burst = f", burst {self.burst}" if self.burst > 1 else ""
        return f"{self.count} per {self.per:g} s{burst}"


def _check_per(value: object) -> float:
    seconds = check_seconds("per", value)
    if not 0 < seconds <= MAX_PER:
        raise ValueError(f"per must be more than 0 and at most {MAX_PER:g} seconds (30 days); got {value!r}")
    return seconds


@dataclass(frozen=True, slots=True)
class Limit:
    """A rule of a board: of all jobs of a ``name``, or of a ``lane``, or of each lane with a prefix (``"tenant:*"``).

    :ivar running: how many of its jobs may be claimed at a time; None: any number; 0: none.
    :ivar rate: how often one of its lane's jobs may start; None: as often as you like.
    :ivar order: ``"strict"``: a job that failed keeps its slot of the lane until it ends.
    :ivar paused: whether nothing of the lane may start, whatever ``running`` says.
    :ivar paused_until: the moment at which the pause ends by itself; None: it has no end, or there is none.
    :ivar by: the operator who set it, why, and when, as far as anybody has said.
    """

    name: str | None = None
    lane: str | None = None
    running: int | None = None
    rate: Rate | None = None
    order: LaneOrder = "free"
    paused: bool = False
    by: str | None = None
    reason: str | None = None
    at: datetime | None = None
    paused_until: datetime | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it limits nothing."""
        return not (self.paused or self.order == "strict") and self.running is None and self.rate is None

    def without_pause(self) -> Limit:
        """Return what it says beside a pause."""
        return replace(self, paused=False, paused_until=None)

    def with_pause_of(self, other: Limit) -> Limit:
        """Return it with the pause of another one, or with none."""
        return replace(self, paused=other.paused, paused_until=other.paused_until)

    def at_moment(self, now: datetime) -> Limit:
        """Return it as it is at a moment: a pause that has ended by then is none."""
        is_over = self.paused_until is not None and self.paused_until <= now
        return self.without_pause() if is_over else self

    def __str__(self) -> str:
        what = f"name {self.name}" if self.lane is None else f"lane {self.lane}"
        parts = [
            *([f"paused{until_text(self.paused_until)}"] if self.paused else []),
            *([] if self.running is None else [f"{self.running} running"]),
            *([] if self.rate is None else [str(self.rate)]),
            *(["strict order"] if self.order == "strict" else []),
        ]
        return f"{what}: {', '.join(parts) or 'no limit'}"


def combined(exact: Limit | None, of_prefix: Limit | None) -> Limit | None:
    """Return what holds for a lane: its own limit, or else its prefix's; a pause of either holds till the later end."""
    found = [limit for limit in (exact, of_prefix) if limit is not None]
    if not found:
        return None
    chosen = next((limit for limit in found if not limit.without_pause().is_empty), found[0])
    ends = [limit.paused_until for limit in found if limit.paused]
    until = None if None in ends else max((end for end in ends if end is not None), default=None)
    return replace(chosen, paused=bool(ends), paused_until=until)


@dataclass(frozen=True, slots=True)
class LaneStats:
    """How a lane stands: its jobs, and the limit that holds for it (None: none does).

    :ivar running: how many of its jobs are claimed.
    :ivar claimable: how many can be claimed now; they have slots, too.
    :ivar retrying: how many wait for a retry; in a strict lane they keep their slots.
    :ivar blocked: how many wait for a slot.
    :ivar oldest: for how many seconds the first of these has waited; None if there is none.
    """

    lane: str
    running: int
    claimable: int
    retrying: int
    blocked: int
    oldest: float | None
    limit: Limit | None

    @property
    def kept(self) -> int:
        """How many slots jobs keep that wait for a retry: in a strict lane all of these, else none."""
        return self.retrying if self.limit is not None and self.limit.order == "strict" else 0

    @property
    def taken(self) -> int:
        """How many slots are taken, by jobs that run, can be claimed, or keep theirs for a retry."""
        return self.running + self.claimable + self.kept


def check_lane(value: object) -> str:
    """Return ``value`` if it can be a job's lane.

    :raises ValueError: it is empty, longer than 255 bytes, or has control characters or a ``*``, or ends in ``:``.
    """
    lane = check_text("lane", value)
    if "*" in lane:
        raise ValueError(f"lane must have no *, which stands for all lanes of a prefix in a limit; got {lane!r}")
    if lane.endswith(":"):
        raise ValueError(f"lane must not end in a colon; got {lane!r}")
    return lane


def check_pattern(value: object) -> str:
    """Return ``value`` if a limit can be set for it: a lane, or a prefix with ``:*`` after it.

    :raises ValueError: it is neither.
    """
    text = check_text("lane", value)
    prefix = text.removesuffix(ANY_LANE)
    if text.endswith(":") or ("*" in text and (prefix == text or not prefix or "*" in prefix)):
        raise ValueError(f'lane must be a lane, or a prefix such as "tenant:*"; got {text!r}')
    return text


def prefix_of(lane: str) -> str | None:
    """Return the pattern of all lanes that have the same text before their last colon; None if it has no colon."""
    prefix, colon, _ = lane.rpartition(":")
    return prefix + ANY_LANE if colon and prefix else None


def is_lane_of(lane: str, pattern: str) -> bool:
    """Whether a lane is the one of a pattern, or one of those with its prefix."""
    return pattern in (lane, prefix_of(lane))


def check_running(value: object) -> int:
    """Return ``value`` if it can be a number of running jobs; 0 is a pause.

    :raises ValueError: it is negative, or too large: what may run without end has no limit.
    """
    if isinstance(value, float) and math.isnan(value):
        raise ValueError("running must be a whole number, not NaN")
    return check_count("running", value, 0, MAX_RUNNING)


def check_target(name: object, lane: object) -> Limit:
    """Return an empty limit of this name, or of this lane or prefix.

    :raises ValueError: both or none are given, or what is given can't be one. :raises TypeError: it is no text.
    """
    if (name is None) == (lane is None):
        raise ValueError("give name or lane, one of both")
    return Limit(name=check_text("name", name)) if name is not None else Limit(lane=check_pattern(lane))


def check_limit(name: object, lane: object, running: object, rate: object, order: object) -> Limit:
    """Return a limit if a board can keep one of these.

    :raises ValueError: it says nothing, or something that can't be kept; says what. :raises TypeError: likewise.
    """
    target = check_target(name, lane)
    if order != "free" and order != "strict":
        raise ValueError(f'order must be "free" or "strict", not {order!r}')
    if rate is not None and not isinstance(rate, Rate):
        raise TypeError(f"rate must be a Rate, not {type(rate).__name__}")
    if target.name is not None and target.name.endswith(":*"):
        raise ValueError(
            f"a limit of a name is of exactly that name, so {name!r} would limit nothing; "
            "post the jobs with a lane, and limit its prefix"
        )
    if name is not None and (rate is not None or order == "strict"):
        raise ValueError("a rate and a strict order are of lanes; post the jobs with a lane, and limit that")
    if running is None and rate is None and order == "free":
        raise ValueError("the limit says nothing: give running, rate, or order; remove() removes one")
    known = None if running is None else check_running(running)
    return replace(target, running=known, rate=rate, order=order)
