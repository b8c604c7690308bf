"""From the keywords of APScheduler 3 to triggers and schedules. Needs the extra ``apscheduler``, but no APScheduler."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any, NamedTuple

from jobboard.apscheduler.cron_fields import cron_of
from jobboard.errors import MissingExtra
from jobboard.schedules.triggers import At, Calendar, Every
from jobboard.schedules.triggers.zones import check_zone, zone_named
from jobboard.types import IfExistsName
from jobboard.validation import check_moment, moment

if importlib.util.find_spec("cronsim") is None:
    raise MissingExtra("the converter needs the Python package 'cronsim': pip install 'jobboard[apscheduler]'")


class Converted(NamedTuple):
    """What a call of ``add_job`` becomes.

    :ivar schedule: keywords for ``Schedule``: ``trigger``, and those of ``id``, ``details``, ``start``, ``end``,
        ``jitter``, ``coalesce``, ``misfire_grace``, ``max_instances`` and ``paused`` that were given.
    :ivar if_exists: for ``board.schedules.add``: ``"raise"``, or ``"replace"`` for ``replace_existing=True``.
    :ivar next_run_time: for ``board.schedules.add``: the first fire time, if one was given.
    """

    schedule: dict[str, Any]
    if_exists: IfExistsName
    next_run_time: datetime | None = None


def convert_job(trigger: str, *, scheduler_timezone: Any = None, **keywords: Any) -> Converted:
    """Return what becomes of ``scheduler.add_job(function, trigger, **keywords)`` of APScheduler 3.

    Keywords that are not given keep our defaults: a late run is run, where APScheduler drops it after a second.

    :param trigger: ``"cron"``, ``"interval"``, ``"date"`` or ``"calendarinterval"``.
    :param scheduler_timezone: the ``timezone`` of the scheduler, for triggers that name none.
    :raises ValueError: names the keyword that has no equivalent, and says what to do instead.
    """
    given = dict(keywords)
    schedule: dict[str, Any] = {}
    first = given.pop("next_run_time", None)
    if "next_run_time" in keywords and first is None:
        schedule["paused"] = True
    for keyword in [name for name in given if name in _JOB_KEYWORDS]:
        schedule |= _JOB_KEYWORDS[keyword](given.pop(keyword))
    if_exists: IfExistsName = "replace" if given.pop("replace_existing", False) else "raise"
    for keyword in given:
        if keyword in _NO_EQUIVALENT:
            raise ValueError(f"{keyword} has no equivalent: {_NO_EQUIVALENT[keyword]}")
    schedule |= convert_trigger(trigger, scheduler_timezone=scheduler_timezone, **given)
    return Converted(schedule, if_exists, None if first is None else moment(check_moment("next_run_time", first)))


def convert_trigger(trigger: str, *, scheduler_timezone: Any = None, **keywords: Any) -> dict[str, Any]:
    """Return the keywords ``trigger``, ``start``, ``end`` and ``jitter`` of ``Schedule``, from those of a trigger."""
    if trigger not in _TRIGGERS:
        raise ValueError(f"trigger {trigger!r} has no equivalent; there is one of {', '.join(_TRIGGERS)}. {_COMBINED}")
    known, convert = _TRIGGERS[trigger]
    for keyword in keywords:
        if keyword not in (*known, *_EVERYWHERE):
            raise ValueError(f"trigger {trigger!r} has no keyword {keyword!r}; there are {', '.join(known)}")
    given = {keyword: value for keyword, value in keywords.items() if value is not None}
    moments = _Moments(given, scheduler_timezone)
    jitter = given.pop("jitter", None)
    converted = convert(given, moments)
    return converted | ({"jitter": float(jitter)} if jitter else {})


class _Moments:
    """Reads the dates and times of one trigger on the clocks of its zone, as APScheduler finds it."""

    def __init__(self, given: dict[str, Any], scheduler_timezone: Any) -> None:
        dates = (given.get("start_date"), given.get("end_date"))
        zones = (value.tzinfo for value in dates if isinstance(value, datetime) and value.tzinfo)
        zone = given.pop("timezone", None) or next(zones, None) or scheduler_timezone
        self._zone = None if zone is None else _zone_name(zone)

    @property
    def zone(self) -> str:
        if self._zone is None:
            raise ValueError("timezone must be given: APScheduler took that of its scheduler, or of the host it ran on")
        return self._zone

    def read(self, what: str, value: Any) -> datetime:
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                raise ValueError(f"{what} must be like '2026-12-01 09:00:00'; got {value!r}") from None
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime.combine(value, time())
        if not isinstance(value, datetime):
            raise TypeError(f"{what} must be a datetime, a date or a str, not {type(value).__name__}")
        return (value if value.tzinfo else value.replace(tzinfo=zone_named(self.zone))).astimezone(UTC)

    def bounds(self, given: dict[str, Any]) -> dict[str, datetime]:
        names = {"start_date": "start", "end_date": "end"}
        return {ours: self.read(theirs, given[theirs]) for theirs, ours in names.items() if theirs in given}


def _zone_name(zone: Any) -> str:
    if isinstance(zone, tzinfo):
        # ZoneInfo has a key, pytz a zone; an offset has no name, and is no zone.
        name = getattr(zone, "key", None) or getattr(zone, "zone", None)
        if name is None and zone.utcoffset(None) == timedelta(0):
            name = "UTC"
        if name is None:
            raise ValueError(f"timezone {zone} is an offset, which knows no summer time: name a zone")
        zone = name
    return check_zone("timezone", zone)


def _cron(given: dict[str, Any], moments: _Moments) -> dict[str, Any]:
    bounds = moments.bounds(given)
    fields = {name: value for name, value in given.items() if name not in ("start_date", "end_date")}
    trigger, years = cron_of(fields, moments.zone)
    if years:
        first = moments.read("year", datetime(years[0], 1, 1))  # noqa: DTZ001 - made aware there
        last = moments.read("year", datetime(years[1], 12, 31, 23, 59, 59))  # noqa: DTZ001
        bounds["start"] = max(bounds.get("start", first), first)
        bounds["end"] = min(bounds.get("end", last), last)
    return {"trigger": trigger, **bounds}


def _interval(given: dict[str, Any], moments: _Moments) -> dict[str, Any]:
    bounds = moments.bounds(given)
    units = {name: given[name] for name in ("weeks", "days", "hours", "minutes", "seconds") if name in given}
    return {"trigger": Every(**units, start=bounds.pop("start", None)), **bounds}


def _date(given: dict[str, Any], moments: _Moments) -> dict[str, Any]:
    # Without a date APScheduler runs it at once.
    return {"trigger": At(moments.read("run_date", given["run_date"]) if "run_date" in given else datetime.now(UTC))}


def _calendar_interval(given: dict[str, Any], moments: _Moments) -> dict[str, Any]:
    units = {name: given[name] for name in ("years", "months", "weeks", "days") if given.get(name)}
    start, last = (_as_date(name, given.get(name)) for name in _BOUNDS)
    if ({"years", "months"} & set(units)) and start and start.day > 28:
        raise ValueError(
            f"start_date {start} has no equivalent: APScheduler leaves out months without that day, Calendar takes "
            "their last day. Cron leaves them out, as in 0 0 31 * *"
        )
    hour, minute, second = (given.get(name, 0) for name in ("hour", "minute", "second"))
    trigger = Calendar(**units, at=time(hour, minute, second), tz=moments.zone, start=start)
    # Its end is a date, and that date is still in.
    end = {} if last is None else {"end": moments.read("end_date", datetime.combine(last, time(23, 59, 59)))}
    return {"trigger": trigger, **end}


def _as_date(what: str, value: Any) -> date | None:
    if isinstance(value, str):
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise ValueError(f"{what} must be like '2026-12-01'; got {value!r}") from None
    if isinstance(value, datetime):
        return value.date()
    if value is not None and not isinstance(value, date):
        raise TypeError(f"{what} must be a date or a str, not {type(value).__name__}")
    return value


_Convert = Callable[[dict[str, Any], _Moments], dict[str, Any]]

_EVERYWHERE = ("timezone", "jitter")
_FIELDS = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")
_BOUNDS = ("start_date", "end_date")
_SPANS = ("years", "months", "weeks", "days", "hour", "minute", "second")

_TRIGGERS: Mapping[str, tuple[tuple[str, ...], _Convert]] = {
    "cron": ((*_FIELDS, *_BOUNDS), _cron),
    "interval": (("weeks", "days", "hours", "minutes", "seconds", *_BOUNDS), _interval),
    "date": (("run_date",), _date),
    "calendarinterval": ((*_SPANS, *_BOUNDS), _calendar_interval),
}
_COMBINED = "For 'and' and 'or' convert their triggers one by one, and put them into AllOf or AnyOf"


def _details(value: Any) -> dict[str, Any]:
    return {"details": dict(value)} if value else {}


def _no_arguments(value: Any) -> dict[str, Any]:
    if value:
        raise ValueError("args has no equivalent: a job gets a dict; put its arguments into kwargs, by their names")
    return {}


#: Keywords of ``add_job`` beside those of triggers, and what they become.
_JOB_KEYWORDS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "id": lambda value: {"id": value} if value is not None else {},
    "args": _no_arguments,
    "kwargs": _details,
    "coalesce": lambda value: {"coalesce": "latest" if value else "all"},
    "misfire_grace_time": lambda value: {"misfire_grace": None if value is None else float(value)},
    "max_instances": lambda value: {"max_instances": value},
}

_NO_EQUIVALENT = {
    "name": "a schedule has an id, and its job the name of a handler",
    "executor": "the conductor that handles the job has one",
    "jobstore": "schedules are on the board that they are added to",
}
