"""Rows of dates: every few days, or every few months, counted from a first date."""

from __future__ import annotations

import calendar
from datetime import date
from typing import Protocol

from jobboard.schedules.triggers.clocks import DAY

_EPOCH = date(1970, 1, 1)


class Dates(Protocol):
    """A row of dates, as days since 1970-01-01, numbered from the first one, which is 0."""

    def day(self, number: int) -> int:
        """Return the day of that number."""

    def number_until(self, day: int) -> int:
        """Return the number of the last one that is not later than ``day``."""


class EveryFewDays:
    def __init__(self, first: date, count: int) -> None:
        self._first = (first - _EPOCH).days
        self._count = count

    def day(self, number: int) -> int:
        return self._first + number * self._count

    def number_until(self, day: int) -> int:
        return (day - self._first) // self._count


class EveryFewMonths:
    """On the day of the month of the first one, or on the last day of a month that has no such day."""

    def __init__(self, first: date, count: int) -> None:
        self._first = first.year * 12 + first.month - 1
        self._day_of_month = first.day
        self._count = count

    def day(self, number: int) -> int:
        year, month = divmod(self._first + number * self._count, 12)
        last = calendar.monthrange(year, month + 1)[1]
        return (date(year, month + 1, min(self._day_of_month, last)) - _EPOCH).days

    def number_until(self, day: int) -> int:
        when = date.fromordinal(_EPOCH.toordinal() + day)
        number = (when.year * 12 + when.month - 1 - self._first) // self._count
        return number if self.day(number) <= day else number - 1


class AtTimeOfDay:
    """The wall times of a row of dates, all at one time of the day.

    :param endless: whether the row also goes backwards from its first date.
    """

    def __init__(self, dates: Dates, second: int, *, endless: bool) -> None:
        self._dates = dates
        self._second = second
        self._least = None if endless else 0

    def first_from(self, wall: int) -> int | None:
        # The last date of which the wall time is earlier than this one; what is due is the next.
        number = self._dates.number_until((wall - 1 - self._second) // DAY) + 1
        if self._least is not None:
            number = max(number, self._least)
        return self._wall(number)

    def last_until(self, wall: int) -> int | None:
        number = self._dates.number_until((wall - self._second) // DAY)
        return None if self._least is not None and number < self._least else self._wall(number)

    def _wall(self, number: int) -> int | None:
        try:
            return self._dates.day(number) * DAY + self._second
        except ValueError:
            # Beyond the years that a date can tell.
            return None
