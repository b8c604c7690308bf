"""The wall times of a crontab string: its dates by cronsim, its times of the day by what cronsim has parsed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from copy import copy
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from jobboard.schedules.triggers.clocks import DAY
from jobboard.schedules.triggers.cron_text import fields_of, never_due, parse

if TYPE_CHECKING:
    from collections.abc import Collection

    from cronsim import CronSim

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall time
_FIRST_ORDINAL = date(1970, 1, 1).toordinal()


@lru_cache(maxsize=4096)
def pattern_of(expression: str) -> CronPattern:
    """Return the pattern of a checked expression; one serves all triggers that say the same."""
    return CronPattern(expression)


class CronPattern:
    """The wall times of a crontab string, in seconds since 1970-01-01 00:00 on the clock that shows them.

    cronsim walks the hours and minutes of a day one by one, which takes it longer than all else; it is asked for dates
    alone, and times of the day are looked up.
    """

    def __init__(self, expression: str) -> None:
        parsed = parse(fields_of(expression), expression)
        self._dates = _CronDates(parsed)
        if self._dates.first_after(0) is None:
            raise never_due(expression)
        self._times = _TimesOfDay(parsed.hours, parsed.minutes, parsed.seconds)

    def first_from(self, wall: int) -> int | None:
        day, second = divmod(wall, DAY)
        if self._dates.has(day):
            found = self._times.first_from(second)
            if found is not None:
                return day * DAY + found
        later = self._dates.first_after(day)
        return None if later is None else later * DAY + self._times.first

    def last_until(self, wall: int) -> int | None:
        day, second = divmod(wall, DAY)
        if self._dates.has(day):
            found = self._times.last_until(second)
            if found is not None:
                return day * DAY + found
        earlier = self._dates.last_before(day)
        return None if earlier is None else earlier * DAY + self._times.last


class _CronDates:
    """The dates of a crontab string, as days since 1970-01-01.

    The walkers know them with one time of the day: the first for the way forward, the last for the way back. They move
    when they are asked, so each question has a copy of its own.
    """

    def __init__(self, parsed: CronSim) -> None:
        self._forward, self._backward = copy(parsed), copy(parsed)
        self._forward.hours, self._forward.minutes, self._forward.seconds = {0}, {0}, {0}
        self._backward.hours, self._backward.minutes, self._backward.seconds = {23}, {59}, {59}
        self._backward.tick_direction = -1

    def has(self, day: int) -> bool:
        when = date.fromordinal(_FIRST_ORDINAL + day)
        return when.month in self._forward.months and self._forward.match_day(when)

    def first_after(self, day: int) -> int | None:
        return _walk(self._forward, _EPOCH + timedelta(days=day + 1, seconds=-1))

    def last_before(self, day: int) -> int | None:
        return _walk(self._backward, _EPOCH + timedelta(days=day))


def _walk(walker: CronSim, begin: datetime) -> int | None:
    walker = copy(walker)
    walker.dt = begin
    try:
        return (next(walker) - _EPOCH).days
    except (StopIteration, OverflowError):
        return None


class _TimesOfDay:
    """All combinations of hours, minutes and seconds, as seconds since midnight."""

    def __init__(self, hours: Collection[int], minutes: Collection[int], seconds: Collection[int]) -> None:
        self._hours, self._minutes, self._seconds = sorted(hours), sorted(minutes), sorted(seconds)
        self.first = self._hours[0] * 3600 + self._minutes[0] * 60 + self._seconds[0]
        self.last = self._hours[-1] * 3600 + self._minutes[-1] * 60 + self._seconds[-1]

    def first_from(self, second: int) -> int | None:
        """Return the first one at ``second`` or later in this day."""
        hour, rest = divmod(second, 3600)
        at = bisect_left(self._hours, hour)
        if at < len(self._hours) and self._hours[at] == hour:
            found = self._first_in_hour(rest)
            if found is not None:
                return hour * 3600 + found
            at += 1
        if at == len(self._hours):
            return None
        return self._hours[at] * 3600 + self._minutes[0] * 60 + self._seconds[0]

    def _first_in_hour(self, second: int) -> int | None:
        minute, rest = divmod(second, 60)
        at = bisect_left(self._minutes, minute)
        if at < len(self._minutes) and self._minutes[at] == minute:
            place = bisect_left(self._seconds, rest)
            if place < len(self._seconds):
                return minute * 60 + self._seconds[place]
            at += 1
        return None if at == len(self._minutes) else self._minutes[at] * 60 + self._seconds[0]

    def last_until(self, second: int) -> int | None:
        """Return the last one at ``second`` or earlier in this day."""
        hour, rest = divmod(second, 3600)
        at = bisect_right(self._hours, hour) - 1
        if at >= 0 and self._hours[at] == hour:
            found = self._last_in_hour(rest)
            if found is not None:
                return hour * 3600 + found
            at -= 1
        return None if at < 0 else self._hours[at] * 3600 + self._minutes[-1] * 60 + self._seconds[-1]

    def _last_in_hour(self, second: int) -> int | None:
        minute, rest = divmod(second, 60)
        at = bisect_right(self._minutes, minute) - 1
        if at >= 0 and self._minutes[at] == minute:
            place = bisect_right(self._seconds, rest) - 1
            if place >= 0:
                return minute * 60 + self._seconds[place]
            at -= 1
        return None if at < 0 else self._minutes[at] * 60 + self._seconds[-1]
