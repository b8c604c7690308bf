"""Every: a fixed time span, again and again."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from jobboard.schedules.triggers.instants import SECOND, datetime_of, instant_of, text_of
from jobboard.schedules.triggers.trigger import Trigger
from jobboard.types import Seconds
from jobboard.validation import MAX_SECONDS, check_number

#: Seconds in each unit, from the largest.
UNITS = {"weeks": 604_800, "days": 86_400, "hours": 3600, "minutes": 60, "seconds": 1}

_SHORTEST = SECOND // 1000
#: Monday, 1970-01-05 00:00 UTC: so weeks begin on Mondays.
_ANCHOR = 4 * 86_400 * SECOND


class Every(Trigger):
    """A time span again and again: ``Every(minutes=5)``.

    It counts elapsed time, so a day is 24 hours whatever clocks do; for wall times there is ``Calendar``. It never
    drifts: all fire times are whole time spans away from ``start``.

    :param weeks: with ``days``, ``hours``, ``minutes`` and ``seconds`` the time span, which is the sum of them, 0.001
        seconds at least.
    :param start: the first fire time, an aware datetime. Without it the time spans are counted from Monday, 1970-01-05
        00:00 UTC: five minutes are at :00, :05, ..., and a trigger made anew after a restart is the same. With the
        present moment it is another one each time, and never fires if restarts are more frequent.
    """

    def __init__(
        self,
        *,
        weeks: float = 0,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: Seconds = 0,
        start: datetime | None = None,
    ) -> None:
        # Whole numbers stay so; see below.
        rest = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
        given = {"weeks": weeks, "days": days, "hours": hours, "minutes": minutes, "seconds": rest}
        self._interval = _interval_of(given)
        self._start = None if start is None else instant_of("start", start)
        # Each step of a schedule writes it.
        self._start_text = None if self._start is None else text_of(self._start)

    @property
    def seconds(self) -> float:
        """The time span in seconds; a whole number is an int."""
        whole, rest = divmod(self._interval, SECOND)
        return whole if not rest else self._interval / SECOND

    @property
    def start(self) -> datetime | None:
        """The first fire time, in UTC."""
        return None if self._start is None else datetime_of(self._start)

    def first_after(self, instant: int) -> int | None:
        if self._start is None:
            return instant + self._interval - (instant - _ANCHOR) % self._interval
        if instant < self._start:
            return self._start
        return instant + self._interval - (instant - self._start) % self._interval

    def last_within(self, after: int, until: int) -> int | None:
        anchor = _ANCHOR if self._start is None else self._start
        found = until - (until - anchor) % self._interval
        if self._start is not None and found < self._start:
            return None
        return found if found > after else None

    def to_plain(self) -> dict[str, Any]:
        return {"kind": "every", "seconds": self.seconds, "start": self._start_text}

    def __repr__(self) -> str:
        start = "" if self._start is None else f", start={self._start_text!r}"
        return f"Every(seconds={self.seconds!r}{start})"


def check_interval(trigger: Trigger, least: float) -> None:
    """Raise ``ValueError`` if an ``Every`` in the trigger is due more often than every ``least`` seconds."""
    if isinstance(trigger, Every) and trigger.seconds < least:
        raise ValueError(
            f"{trigger!r} is due too often: at most every {least:g} seconds, unless the board's option least_interval "
            "says less"
        )
    for part in (*getattr(trigger, "triggers", ()), *filter(None, [getattr(trigger, "trigger", None)])):
        check_interval(part, least)


def _interval_of(given: dict[str, float]) -> int:
    total = 0.0
    for unit, value in given.items():
        number = check_number(unit, value)
        if not 0 <= number * UNITS[unit] <= MAX_SECONDS:
            raise ValueError(f"{unit} must be from 0 to a hundred years; got {value!r}")
        # Whole numbers are multiplied as such: no rounding where none is asked for.
        total += value * UNITS[unit] * SECOND
    interval = round(total)
    if interval < _SHORTEST:
        raise ValueError("Every needs a time span of 0.001 seconds at least, such as Every(minutes=5)")
    return interval
