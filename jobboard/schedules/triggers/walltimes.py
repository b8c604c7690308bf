"""From a pattern of wall times to instants, by a policy for what clocks skip and for what they show twice.

In spring clocks skip wall times (a *gap*), in autumn they show some twice (a *fold*). Of a zone's year this walks the
stretches between such changes; within one, wall times and instants run side by side, and nothing can be asked twice.
"""

from __future__ import annotations

from typing import Protocol, get_args

from jobboard.schedules.triggers.clocks import DAY, WIDEST, Clock, Stretch
from jobboard.schedules.triggers.instants import EARLIEST, LATEST, SECOND
from jobboard.types import Fold, Gap

GAPS = get_args(Gap)
FOLDS = get_args(Fold)

_FIRST_SECOND, _LAST_SECOND = EARLIEST // SECOND, LATEST // SECOND


class Pattern(Protocol):
    """A row of wall times that knows no zone."""

    def first_from(self, wall: int) -> int | None:
        """Return the first one at ``wall`` or later."""

    def last_until(self, wall: int) -> int | None:
        """Return the last one at ``wall`` or earlier."""


class WallTimes:
    """The instants at which the clocks of a zone show the wall times of a pattern; all in whole seconds.

    :param gap: what becomes of wall times that clocks skip: ``"shift"``, they are at the first moment after the gap
        (several are one), or ``"skip"``. Of a date that is skipped as a whole nothing is shifted: it never was.
    :param fold: which instant is meant by a wall time that clocks show twice: ``"first"``, ``"second"`` or ``"both"``.
    """

    def __init__(self, pattern: Pattern, zone: str, gap: str, fold: str) -> None:
        self._pattern = pattern
        self._clock = Clock(zone)
        self._shifts = gap == "shift"
        self._fold = fold

    def first_after(self, second: int) -> int | None:
        at = max(second + 1, _FIRST_SECOND)
        while at <= _LAST_SECOND:
            stretch = self._clock.stretch_at(at)
            if at == stretch.start and self._is_due_in_gap_before(stretch):
                return at
            low, high = self._counting(stretch)
            wall = self._pattern.first_from(max(at + stretch.offset, low))
            if wall is not None and wall < high:
                return wall - stretch.offset
            if stretch.end - at < WIDEST:
                # A fold may bring back wall times from before this one.
                at = stretch.end
            elif wall is None:
                return None
            else:
                at = max(stretch.end, wall - WIDEST)
        return None

    def last_within(self, after: int, until: int) -> int | None:
        at, floor = min(until, _LAST_SECOND), max(after + 1, _FIRST_SECOND)
        while at >= floor:
            stretch = self._clock.stretch_at(at)
            low, high = self._counting(stretch)
            wall = self._pattern.last_until(min(at + stretch.offset, high - 1))
            if wall is not None and wall >= max(stretch.start + stretch.offset, low):
                found = wall - stretch.offset
                return found if found >= floor else None
            if self._is_due_in_gap_before(stretch):
                return stretch.start if stretch.start >= floor else None
            if at - stretch.start < WIDEST:
                at = stretch.start - 1
            elif wall is None:
                return None
            else:
                at = min(stretch.start - 1, wall + WIDEST)
        return None

    def _counting(self, stretch: Stretch) -> tuple[int, int]:
        """Return from which wall time, to before which, those of a stretch count."""
        low, high = stretch.start + stretch.offset, stretch.end + stretch.offset
        if self._fold == "first":
            low = max(low, stretch.start + stretch.before)
        elif self._fold == "second":
            high = min(high, stretch.end + stretch.after)
        return low, high

    def _is_due_in_gap_before(self, stretch: Stretch) -> bool:
        low, high = stretch.start + stretch.before, stretch.start + stretch.offset
        if not self._shifts or low >= high:
            return False
        # The rest of the date at which clocks jumped, and the begin of the one where they landed; in between are dates
        # that nobody has ever seen, such as 2011-12-30 in Samoa.
        rest, begin = min(high, -(-low // DAY) * DAY), max(low, high // DAY * DAY)
        return self._has_one(low, rest) or self._has_one(begin, high)

    def _has_one(self, low: int, high: int) -> bool:
        wall = self._pattern.first_from(low) if low < high else None
        return wall is not None and wall < high


def check_policy(what: str, value: object, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError(f"{what} must be {', '.join(map(repr, known[:-1]))} or {known[-1]!r}; got {value!r}")
    return str(value)
