"""Calendar: every few years, months, weeks or days, at a time on the clocks of a zone."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time
from typing import Any

from jobboard.schedules.triggers.dates import AtTimeOfDay, Dates, EveryFewDays, EveryFewMonths
from jobboard.schedules.triggers.instants import SECOND, instant_of
from jobboard.schedules.triggers.trigger import Trigger
from jobboard.schedules.triggers.walltimes import FOLDS, GAPS, WallTimes, check_policy
from jobboard.schedules.triggers.zones import check_zone, zone_named
from jobboard.types import Fold, Gap
from jobboard.validation import check_count

_EPOCH = date(1970, 1, 1)
#: Where counting begins if nobody says: a Monday, or the first of January.
_ANCHORS = {"years": _EPOCH, "months": _EPOCH, "weeks": date(1970, 1, 5), "days": _EPOCH}
_MOST = {"years": 100, "months": 1200, "weeks": 5200, "days": 36_500}


class Calendar(Trigger):
    """Every few years, months, weeks or days at a wall time: ``Calendar(months=1, at="09:00", tz="Europe/Berlin")``.

    One of ``years``, ``months``, ``weeks`` and ``days`` is given, and counted from ``start``. In a month without that
    day it is due on the last day: from January 31 monthly, that is February 28 or 29, then March 31 again.

    :param at: the wall time, ``"HH:MM"``, ``"HH:MM:SS"`` or a naive ``datetime.time``; midnight by default.
    :param tz: the zone whose clocks and dates are meant, UTC by default.
    :param gap: what becomes of a time that clocks skip in spring, as for ``Cron``: ``"shift"`` or ``"skip"``.
    :param fold: of a time that clocks show twice in autumn, which is meant: ``"first"``, ``"second"`` or ``"both"``.
    :param start: the date to count from, and the first one; or an aware datetime, for its date in ``tz``, and nothing
        earlier than it is due. Without it years and months are counted from January 1, 1970, weeks from Monday,
        January 5, 1970, days from January 1, 1970: so months are due on the first.
    """

    def __init__(
        self,
        *,
        years: int = 0,
        months: int = 0,
        weeks: int = 0,
        days: int = 0,
        at: str | time = "00:00",
        tz: Any = "UTC",
        gap: Gap = "shift",
        fold: Fold = "first",
        start: date | None = None,
    ) -> None:
        self.unit, self.count = _step_of({"years": years, "months": months, "weeks": weeks, "days": days})
        self.at = _wall_time_of(at)
        self.tz = check_zone("tz", tz)
        self.gap = check_policy("gap", gap, GAPS)
        self.fold = check_policy("fold", fold, FOLDS)
        self._start = _start_of(start)
        self._least = instant_of("start", start) if isinstance(start, datetime) else None
        pattern = AtTimeOfDay(self._dates(), _seconds_of(self.at), endless=start is None)
        self._times = WallTimes(pattern, self.tz, self.gap, self.fold)

    @property
    def start(self) -> date | datetime | None:
        """The start as given; a datetime is in UTC."""
        return self._start

    def _dates(self) -> Dates:
        first = self._first_date()
        if self.unit in ("years", "months"):
            return EveryFewMonths(first, self.count * (12 if self.unit == "years" else 1))
        return EveryFewDays(first, self.count * (7 if self.unit == "weeks" else 1))

    def _first_date(self) -> date:
        if self._start is None:
            return _ANCHORS[self.unit]
        if isinstance(self._start, datetime):
            return self._start.astimezone(zone_named(self.tz)).date()
        return self._start

    def first_after(self, instant: int) -> int | None:
        if self._least is not None:
            instant = max(instant, self._least - 1)
        found = self._times.first_after(instant // SECOND)
        return None if found is None else found * SECOND

    def last_within(self, after: int, until: int) -> int | None:
        if self._least is not None:
            after = max(after, self._least - 1)
        found = self._times.last_within(after // SECOND, until // SECOND)
        return None if found is None else found * SECOND

    def to_plain(self) -> dict[str, Any]:
        return {
            "kind": "calendar",
            self.unit: self.count,
            "at": self.at,
            "tz": self.tz,
            "gap": self.gap,
            "fold": self.fold,
            "start": None if self._start is None else self._start.isoformat(),
        }

    def __repr__(self) -> str:
        start = "" if self._start is None else f", start={self._start.isoformat()!r}"
        return (
            f"Calendar({self.unit}={self.count}, at={self.at!r}, tz={self.tz!r}, "
            f"gap={self.gap!r}, fold={self.fold!r}{start})"
        )


def _step_of(given: dict[str, int]) -> tuple[str, int]:
    steps = [(unit, check_count(unit, count, least=0)) for unit, count in given.items() if count != 0]
    if len(steps) != 1:
        got = " and ".join(unit for unit, _ in steps) or "none"
        raise ValueError(f"Calendar takes one of years, months, weeks and days; got {got}. Several at once: AnyOf")
    unit, count = steps[0]
    if count > _MOST[unit]:
        raise ValueError(f"{unit} must be {_MOST[unit]} at most; got {count}")
    return unit, count


def _wall_time_of(value: object) -> str:
    """Return ``HH:MM:SS``, without its seconds if there are none."""
    if isinstance(value, time):
        if value.tzinfo is not None or value.microsecond:
            raise ValueError("at must be a naive time of whole seconds; its zone is given as tz")
        text = value.isoformat()
    elif not isinstance(value, str):
        raise TypeError(f"at must be a str such as '09:00', or a datetime.time, not {type(value).__name__}")
    elif not re.fullmatch(r"([01][0-9]|2[0-3])(:[0-5][0-9]){1,2}", value):
        raise ValueError(f"at must be a time from 00:00 to 23:59:59, such as '09:00'; got {value!r}")
    else:
        text = value
    return text.removesuffix(":00") if len(text) == len("HH:MM:SS") else text


def _seconds_of(wall_time: str) -> int:
    hour, minute, second = (int(part) for part in f"{wall_time}:00".split(":")[:3])
    return hour * 3600 + minute * 60 + second


def _start_of(value: object) -> date | datetime | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        instant_of("start", value)
        return value.astimezone(UTC)
    if not isinstance(value, date):
        raise TypeError(f"start must be a date or an aware datetime, not {type(value).__name__}")
    return value
