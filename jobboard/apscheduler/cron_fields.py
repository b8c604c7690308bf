"""The fields of APScheduler's cron trigger, as those of a crontab string. They look alike, and are not the same."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from jobboard.errors import SearchEnded
from jobboard.schedules.triggers import AllOf, Cron, Trigger

#: From the most significant one; fields below the last one given are at their least value, the others at any.
_FIELDS = {
    "year": "*",
    "month": "1",
    "day": "1",
    "week": "*",
    "day_of_week": "*",
    "hour": "0",
    "minute": "0",
    "second": "0",
}
_WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_PLAIN = re.compile(r"(\*|\d+(-\d+)?)(/\d+)?")
_NAMES = re.compile(r"[a-z]{3}(-[a-z]{3})?")
_POSITION = re.compile(r"(1st|2nd|3rd|4th|5th|last) +([a-z]{3})")


def cron_of(given: dict[str, Any], zone: str) -> tuple[Trigger, tuple[int, int] | None]:
    """Return the trigger of given fields, and the first and last year if there are some.

    :raises ValueError: names the field that is wrong, or has no equivalent.
    """
    if not given:
        raise ValueError("cron without any field would run every second; if you mean it, write second='*'")
    fields = _with_defaults(given)
    if fields["week"] != "*":
        raise ValueError("week has no equivalent: ISO weeks are no field of cron. For every n weeks: Calendar(weeks=n)")
    time = " ".join(_numbers(name, fields[name]) for name in ("second", "minute", "hour"))
    month = _month(fields["month"])
    days, weekdays = _day(fields["day"]), _weekdays(fields["day_of_week"])
    # APScheduler wants both, day and day of week; crontab strings take either, unless one of them is *.
    wanted = [pair for pair in (days, ("*", weekdays)) if pair != ("*", "*")] or [("*", "*")]
    crons = [Cron(f"{time} {day} {month} {week}".removeprefix("0 "), zone) for day, week in wanted]
    return crons[0] if len(crons) == 1 else _both(crons, fields), _years(fields["year"])


def _both(crons: list[Cron], fields: dict[str, str]) -> Trigger:
    trigger = AllOf(*crons)
    try:
        trigger.next_fire_time(datetime(2000, 1, 1, tzinfo=UTC))
    except SearchEnded:
        day, weekday = fields["day"], fields["day_of_week"]
        raise ValueError(f"day {day!r} and day_of_week {weekday!r} are never on the same date") from None
    return trigger


def _with_defaults(given: dict[str, Any]) -> dict[str, str]:
    names = list(_FIELDS)
    last = max(names.index(name) for name in given)
    fields = {name: "*" if names.index(name) < last else least for name, least in _FIELDS.items()}
    return fields | {name: str(value).strip().lower() for name, value in given.items()}


def _terms(text: str) -> list[str]:
    return re.split(r" *, *", text)


def _numbers(name: str, text: str) -> str:
    for term in _terms(text):
        if not _PLAIN.fullmatch(term):
            raise ValueError(f"{name}: there is no equivalent of {term!r}")
    return ",".join(_terms(text))


def _month(text: str) -> str:
    terms = _terms(text)
    return ",".join(term if _NAMES.fullmatch(term) else _numbers("month", term) for term in terms)


def _day(text: str) -> tuple[str, str]:
    """Return the day of the month and the day of the week of which either is wanted; with a ``*``, the other one."""
    days, positions = [], []
    for term in _terms(text):
        position = _POSITION.fullmatch(term)
        if position:
            positions.append(_position(*position.groups()))
        else:
            days.append("L" if term == "last" else _numbers("day", term))
    if not positions:
        return ",".join(days), "*"
    if not days:
        return "*", ",".join(positions)
    if any(day.startswith("*") for day in days):
        # With a * in front a crontab string would want both.
        days = ["1-31" + day.removeprefix("*") if day.startswith("*") else day for day in days]
    return ",".join(days), ",".join(positions)


def _position(which: str, weekday: str) -> str:
    number = _number_of(weekday)
    if which == "last":
        return f"{(number + 1) % 7}L"
    return f"{weekday}#{which[0]}"


def _number_of(weekday: str) -> int:
    if weekday not in _WEEK:
        raise ValueError(f"there is no weekday {weekday!r}; there are {', '.join(_WEEK)}")
    return _WEEK.index(weekday)


def _weekdays(text: str) -> str:
    """Return names: APScheduler's numbers begin with Monday as 0, crontab's with Sunday."""
    numbers: set[int] = set()
    for term in _terms(text):
        numbers.update(_week_numbers(term))
    return "*" if len(numbers) == 7 else ",".join(_runs(sorted(numbers)))


def _week_numbers(term: str) -> range:
    values, _, step = term.partition("/")
    begin, end = _week_range(term, values, to_the_end=bool(step))
    if not begin <= end <= 6 or step == "0":
        raise ValueError(f"day_of_week {term!r}: values are 0-6 or mon-sun, and a range goes upwards from Monday")
    return range(begin, end + 1, int(step or 1))


def _week_range(term: str, values: str, to_the_end: bool) -> tuple[int, int]:
    first, _, last = values.partition("-")
    if _NAMES.fullmatch(term):
        return _number_of(first), _number_of(last or first)
    if not _PLAIN.fullmatch(term):
        raise ValueError(f"day_of_week: there is no equivalent of {term!r}")
    if first == "*":
        return 0, 6
    return int(first), 6 if to_the_end and not last else int(last or first)


def _runs(numbers: list[int]) -> Iterable[str]:
    """Write three and more in a row as a range."""
    at = 0
    while at < len(numbers):
        end = at
        while end + 1 < len(numbers) and numbers[end + 1] == numbers[end] + 1:
            end += 1
        if end - at >= 2:
            yield f"{_WEEK[numbers[at]]}-{_WEEK[numbers[end]]}"
            at = end + 1
        else:
            yield _WEEK[numbers[at]]
            at += 1


def _years(text: str) -> tuple[int, int] | None:
    if text == "*":
        return None
    found = re.fullmatch(r"(\d{4})(?:-(\d{4}))?", text)
    if not found:
        raise ValueError(f"year {text!r} has no equivalent but one year or a range, which become start and end")
    first, last = int(found[1]), int(found[2] or found[1])
    if not 1970 <= first <= last <= 9990:
        raise ValueError(f"year {text!r}: years are 1970-9990, and a range goes upwards")
    return first, last
