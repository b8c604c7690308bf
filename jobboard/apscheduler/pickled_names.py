"""What a pickle of APScheduler 3 may name, and what becomes of it: times, zones, and a :class:`State` for each of
APScheduler's own triggers. Every other name is refused, and none of them is imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from typing import Any, NamedTuple

from jobboard.schedules.triggers.zones import zone_named
from jobboard.text import in_one_line


class Refused(ValueError):
    """Why a job can't be imported."""


@dataclass(slots=True, eq=False)
class State:
    """An object of one of APScheduler's classes, as its pickle tells it; its class is never imported."""

    kind: str
    fields: dict[str, Any] = field(default_factory=dict)


class _Global(NamedTuple):
    """A class or function that a pickle names."""

    module: str
    name: str

    @property
    def text(self) -> str:
        return in_one_line(f"{self.module}.{self.name}")[:200]


@dataclass(slots=True, eq=False)
class PytzZone:
    """A zone of pytz, at one of its offsets; without an offset a zone as such."""

    name: str
    offset: timedelta | None = None


_TRIGGERS = "apscheduler.triggers."
#: APScheduler's own classes that become a :class:`State`, by their modules.
_CLASSES = {
    _TRIGGERS + "date": {"DateTrigger"},
    _TRIGGERS + "interval": {"IntervalTrigger"},
    _TRIGGERS + "calendarinterval": {"CalendarIntervalTrigger"},
    _TRIGGERS + "combining": {"AndTrigger", "OrTrigger"},
    _TRIGGERS + "cron": {"CronTrigger"},
    _TRIGGERS + "cron.fields": {"BaseField", "MonthField", "WeekField", "DayOfMonthField", "DayOfWeekField"},
    _TRIGGERS + "cron.expressions": {
        "AllExpression",
        "RangeExpression",
        "MonthRangeExpression",
        "WeekdayRangeExpression",
        "WeekdayPositionExpression",
        "LastDayOfMonthExpression",
    },
}


def known(module: object, name: object) -> _Global:
    """Return the class or function that a pickle names, if it may.

    :raises Refused: it may not.
    """
    if not isinstance(module, str) or not isinstance(name, str):
        raise Refused("it names a class or function by something that is no str")
    named = _Global(module, name)
    if named not in _CALLS and name not in _CLASSES.get(module, ()) and named not in _OBJECT:
        raise Refused(f"it holds {named.text}, which is no state of APScheduler's own and no plain data")
    return named


def make(kind: object, arguments: object) -> State:
    """Return what an object of one of APScheduler's classes becomes, before its fields are set.

    :raises Refused: it is none of those classes, or takes arguments.
    """
    if not isinstance(kind, _Global) or kind.name not in _CLASSES.get(kind.module, ()) or arguments != ():
        raise Refused(f"it makes an object of {kind.text if isinstance(kind, _Global) else type(kind).__name__}")
    return State(kind.name)


def call(function: object, arguments: object) -> Any:
    """Return what a call in a pickle would have made; what is named is not called itself.

    :raises Refused: it may not be called, or not with these arguments.
    """
    if not isinstance(function, _Global) or function not in _CALLS or not isinstance(arguments, tuple):
        raise Refused(f"it calls {function.text if isinstance(function, _Global) else type(function).__name__}")
    return _CALLS[function](*arguments)


def _reconstruct(kind: object, base: object, state: object) -> State:
    if base not in _OBJECT or state is not None:
        raise Refused("it makes an object that is not one of APScheduler's")
    return make(kind, ())


def _encode(text: str, encoding: str) -> bytes:
    """Bytes, as pickles of protocol 2 and older write them."""
    if encoding != "latin1":
        raise Refused(f"it encodes a text as {encoding!r:.50}")
    return text.encode("latin1")


def _raw(value: object, size: int) -> bytes:
    data = value.encode("latin1") if isinstance(value, str) else value
    if not isinstance(data, bytes) or len(data) != size:
        raise Refused("it holds a date or a time that is none")
    return data


def _datetime(raw: object, zone: object = None) -> datetime:
    made: datetime = datetime(_raw(raw, 10))  # type: ignore[call-arg, arg-type]  # noqa: DTZ001
    if isinstance(zone, PytzZone) and zone.offset is not None:
        return made.replace(tzinfo=timezone(zone.offset)).astimezone(zone_named(zone.name))
    return made.replace(tzinfo=None if zone is None else as_zone(zone))


def as_zone(zone: object) -> tzinfo:
    """Return the time zone that a pickle holds."""
    if isinstance(zone, PytzZone):
        return zone_named(zone.name)
    if isinstance(zone, tzinfo):
        return zone
    raise Refused(f"it has a time zone that is a {type(zone).__name__}")


def _date(raw: object) -> date:
    made: date = date(_raw(raw, 4))  # type: ignore[call-arg, arg-type]
    return made


def _time(raw: object) -> time:
    made: time = time(_raw(raw, 6))  # type: ignore[arg-type]
    return made


def _pytz(name: str, offset: int | None = None, _dst: int = 0, _abbreviation: str = "") -> PytzZone:
    zone_named(name)
    return PytzZone(name, None if offset is None else timedelta(seconds=offset))


def _pytz_utc() -> tzinfo:
    return zone_named("UTC")


def _pytz_offset(minutes: int) -> tzinfo:
    return timezone(timedelta(minutes=minutes))


def _zone_info(name: str, _from_cache: bool = True) -> tzinfo:
    return zone_named(name)


def _shimmed(zone: tzinfo, name: str | None = None) -> tzinfo:
    """The zones of tzlocal 3 and 4, which wrapped others."""
    return zone if name is None else zone_named(name)


def _attribute(owner: object, name: object) -> _Global:
    """Protocols before 4 name a method by ``getattr``."""
    if owner not in _ZONE_CLASSES or name != "_unpickle":
        raise Refused("it reads an attribute of something")
    return _Global("zoneinfo", "ZoneInfo._unpickle")


_OBJECT = frozenset({_Global("builtins", "object"), _Global("__builtin__", "object")})
_ZONE_CLASSES = frozenset({_Global("zoneinfo", "ZoneInfo"), _Global("backports.zoneinfo", "ZoneInfo")})

#: What may be called, and what is done in its place.
_CALLS: dict[_Global, Callable[..., Any]] = {
    _Global("datetime", "datetime"): _datetime,
    _Global("datetime", "date"): _date,
    _Global("datetime", "time"): _time,
    _Global("datetime", "timedelta"): timedelta,
    _Global("datetime", "timezone"): timezone,
    _Global("zoneinfo", "ZoneInfo._unpickle"): _zone_info,
    _Global("backports.zoneinfo", "ZoneInfo._unpickle"): _zone_info,
    **dict.fromkeys(_ZONE_CLASSES, _zone_info),
    _Global("builtins", "getattr"): _attribute,
    _Global("__builtin__", "getattr"): _attribute,
    _Global("pytz", "_p"): _pytz,
    _Global("pytz", "_UTC"): _pytz_utc,
    _Global("pytz", "FixedOffset"): _pytz_offset,
    _Global("pytz_deprecation_shim._impl", "wrap_zone"): _shimmed,
    _Global("copy_reg", "_reconstructor"): _reconstruct,
    _Global("copyreg", "_reconstructor"): _reconstruct,
    _Global("_codecs", "encode"): _encode,
}
