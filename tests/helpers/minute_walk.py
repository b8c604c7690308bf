"""Fire times by brute force: every real minute is looked at on a clock of the zone. Shares no code with triggers."""

from __future__ import annotations

import calendar
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
_WEEK = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


def fire_times(
    expression: str, zone: str, start: datetime, end: datetime, gap: str = "shift", fold: str = "first"
) -> list[datetime]:
    """Return the fire times from ``start`` to before ``end``, whole minutes in UTC, of a crontab string of 5 fields."""
    margin = timedelta(days=2)
    walls = list(_walls(zone, start - margin, end + margin))
    steps = any(sign in field for field in expression.split()[:2] for sign in "*/")
    due = _recurring(expression, walls) if steps else _fixed(expression, walls, gap, fold)
    return [moment for moment in due if start <= moment < end]


def local_dates(zone: str, start: datetime, end: datetime) -> set[date]:
    """Return every date that clocks show within a time, looking every 30 minutes."""
    steps = int((end - start) / timedelta(minutes=30))
    return {(start + timedelta(minutes=30) * step).astimezone(ZoneInfo(zone)).date() for step in range(steps)}


def _walls(zone: str, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    clock, moment = ZoneInfo(zone), start
    while moment < end:
        yield moment, moment.astimezone(clock).replace(tzinfo=None, fold=0)
        moment += MINUTE


def _recurring(expression: str, walls: Iterable[tuple[datetime, datetime]]) -> list[datetime]:
    return [moment for moment, wall in walls if matches(expression, wall)]


def _fixed(expression: str, walls: list[tuple[datetime, datetime]], gap: str, fold: str) -> list[datetime]:
    shown: dict[datetime, list[datetime]] = {}
    for moment, wall in walls:
        shown.setdefault(wall, []).append(moment)
    chosen = {"first": slice(0, 1), "second": slice(-1, None), "both": slice(None)}[fold]
    due = {moment for wall, moments in shown.items() if matches(expression, wall) for moment in moments[chosen]}
    if gap == "shift":
        dates = {wall.date() for wall in shown}
        for (_, before), (moment, wall) in pairwise(walls):
            skipped = (before + MINUTE * step for step in range(1, int((wall - before) / MINUTE)))
            if any(time.date() in dates and matches(expression, time) for time in skipped):
                due.add(moment)
    return sorted(due)


def matches(expression: str, wall: datetime) -> bool:
    """Say whether a wall time is one of a crontab string."""
    minute, hour, day, month, week = _split(expression)
    if not (wall.minute in _numbers(minute, 0, 59) and wall.hour in _numbers(hour, 0, 23)):
        return False
    on_day = wall.day in _numbers(day, 1, 31) if day != "L" else (wall + timedelta(days=1)).day == 1
    on_week = _is_on(week, wall)
    both = day.startswith("*") or week.startswith("*")
    return wall.month in _numbers(month, 1, 12) and ((on_day and on_week) if both else (on_day or on_week))


@lru_cache
def _split(expression: str) -> list[str]:
    return expression.split()


def _is_on(week: str, wall: datetime) -> bool:
    today = (wall.weekday() + 1) % 7
    if "#" in week:
        name, number = week.split("#")
        return _WEEK.index(name) == today and (wall.day - 1) // 7 + 1 == int(number)
    if week.endswith("L"):
        last = calendar.monthrange(wall.year, wall.month)[1]
        return int(week[0]) % 7 == today and wall.day > last - 7
    for number, name in enumerate(_WEEK):
        week = week.replace(name, str(number))
    return bool({today, today or 7} & _numbers(week, 0, 7))


@lru_cache
def _numbers(field: str, least: int, most: int) -> set[int]:
    found: set[int] = set()
    for term in field.split(","):
        values, _, step = term.partition("/")
        low, _, high = values.partition("-")
        first = least if values == "*" else int(low)
        last = most if values == "*" or (step and not high) else int(high or low)
        found.update(range(first, last + 1, int(step or 1)))
    return found


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc]
