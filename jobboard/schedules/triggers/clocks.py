"""What the clocks of a zone show: from instants to wall times, in stretches between their changes.

Everything is counted in whole seconds. A *wall time* is what a clock on a wall shows, as seconds since 1970-01-01 00:00
on that same clock. Only the way from instants to wall times is asked of the zone, which is the one without questions.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple

from jobboard.schedules.triggers.zones import zone_named

DAY = 86_400
#: Two clocks anywhere, at any time, differ by less than this.
WIDEST = 2 * DAY

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)

#: How many seconds of a zone are looked through at a time, and remembered.
_CHAPTER = 400 * DAY

#: Clocks are looked at so often. No zone in the tz database has ever changed its offset twice within three days.
_PACE = 2 * DAY


class Stretch(NamedTuple):
    """From ``start`` to before ``end`` clocks are ``offset`` seconds ahead of UTC; ``before`` it and ``after`` it."""

    start: int
    end: int
    offset: int
    before: int
    after: int


class Clock:
    """The clocks of one zone."""

    def __init__(self, zone: str) -> None:
        self._zone = zone

    def stretch_at(self, second: int) -> Stretch:
        """Return the stretch that an instant lies in. It may be cut short without a change of the clocks."""
        for stretch in _stretches(self._zone, second // _CHAPTER):
            if second < stretch.end:
                return stretch
        raise AssertionError("stretches fill their chapter")


@lru_cache(maxsize=4096)
def _stretches(zone: str, chapter: int) -> tuple[Stretch, ...]:
    start, end = chapter * _CHAPTER, (chapter + 1) * _CHAPTER
    clocks = zone_named(zone)
    if clocks is UTC:
        return (Stretch(start, end, 0, 0, 0),)
    edges = [start, *_changes(clocks, start, end), end]
    offsets = [_offset(clocks, start - 1), *(_offset(clocks, edge) for edge in edges)]
    return tuple(
        Stretch(edges[at], edges[at + 1], offsets[at + 1], offsets[at], offsets[at + 2]) for at in range(len(edges) - 1)
    )


def _changes(clocks: tzinfo, start: int, end: int) -> list[int]:
    """Find the first seconds of new offsets."""
    found = []
    before = _offset(clocks, start)
    for low in range(start, end, _PACE):
        high = low + _PACE
        now = _offset(clocks, high)
        if now != before:
            change = _change_between(clocks, low, high)
            if change < end:
                found.append(change)
        before = now
    return found


def _change_between(clocks: tzinfo, low: int, high: int) -> int:
    before = _offset(clocks, low)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(clocks, middle) == before:
            low = middle
        else:
            high = middle
    return high


def _offset(clocks: tzinfo, second: int) -> int:
    offset = (_EPOCH + timedelta(seconds=second)).astimezone(clocks).utcoffset()
    assert offset is not None
    return offset // _SECOND
