"""From plain data back to triggers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any

from jobboard.errors import MissingExtra, UnknownBackend
from jobboard.plugins import load_plugin
from jobboard.schedules.triggers.at import At
from jobboard.schedules.triggers.calendar import Calendar
from jobboard.schedules.triggers.combined import AllOf, AnyOf
from jobboard.schedules.triggers.cron import Cron
from jobboard.schedules.triggers.every import Every
from jobboard.schedules.triggers.excluding import Excluding
from jobboard.schedules.triggers.trigger import Trigger

_NAMESPACE = "jobboard.triggers"

#: Deeper than this nobody nests triggers, and what does so is no data of ours.
_MAX_DEPTH = 16


def trigger_from_plain(data: object) -> Trigger:
    """Return the trigger that gave this plain data by ``to_plain``; it may have gone through msgpack or JSON.

    :raises TypeError: it is no dict, or one of its fields is of a wrong type.
    :raises ValueError: names the kind or the field that is wrong, missing or unknown. Unknown fields are refused, since
        their author meant something by them.
    :raises MissingExtra: a ``Cron`` without the package cronsim, or a package's own kind without the package.
    """
    return _decode(data, 0)


def _decode(data: object, depth: int) -> Trigger:
    if depth > _MAX_DEPTH:
        raise ValueError(f"triggers are nested deeper than {_MAX_DEPTH}")
    if not isinstance(data, Mapping):
        raise TypeError(f"a trigger's plain data must be a dict, not {type(data).__name__}")
    fields = dict(data)
    kind = fields.pop("kind", None)
    if isinstance(kind, str) and "." in kind:
        return _of_a_package(kind, fields)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ValueError(f"unknown kind of trigger: {kind!r}; there are {', '.join(_KINDS)}")
    required, optional, make = _KINDS[kind]
    unknown = set(fields) - {*required, *optional}
    if unknown:
        raise ValueError(f"a trigger of kind {kind!r} has no field {', '.join(sorted(map(str, unknown)))}")
    missing = set(required) - set(fields)
    if missing:
        raise ValueError(f"a trigger of kind {kind!r} needs its field {', '.join(sorted(missing))}")
    return make(fields, depth)


def _of_a_package(kind: str, fields: dict[str, Any]) -> Trigger:
    """Return the trigger of a package's own kind, which has a dot in its name."""
    try:
        found = load_plugin(_NAMESPACE, kind)
    except (LookupError, UnknownBackend) as error:
        # A scheduler that has the package posts these jobs.
        raise MissingExtra(
            f"triggers of kind {kind!r} need a package with the entry point in {_NAMESPACE}: {error}"
        ) from None
    made = found(**fields)
    if not isinstance(made, Trigger) or made.to_plain().get("kind") != kind:
        raise ValueError(f"the entry point {kind!r} in {_NAMESPACE} makes no trigger of this kind")
    return made


def _cron(fields: dict[str, Any], _depth: int) -> Trigger:
    return Cron(**fields)


def _every(fields: dict[str, Any], _depth: int) -> Trigger:
    return Every(seconds=fields["seconds"], start=_moment("start", fields.get("start")))


def _calendar(fields: dict[str, Any], _depth: int) -> Trigger:
    return Calendar(**{**fields, "start": _date_or_moment("start", fields.get("start"))})


def _at(fields: dict[str, Any], _depth: int) -> Trigger:
    moment = _moment("moment", fields["moment"])
    if moment is None:
        raise ValueError("moment must be an ISO 8601 text, not None")
    return At(moment)


def _any_of(fields: dict[str, Any], depth: int) -> Trigger:
    return AnyOf(*_triggers(fields, depth))


def _all_of(fields: dict[str, Any], depth: int) -> Trigger:
    return AllOf(*_triggers(fields, depth))


def _excluding(fields: dict[str, Any], depth: int) -> Trigger:
    dates = [_date_or_moment("dates", text) for text in _list("dates", fields.get("dates", []))]
    if any(day is None or isinstance(day, datetime) for day in dates):
        raise ValueError(f"dates must be like 2026-12-25; got {fields['dates']!r}")
    excluded: list[date | Trigger] = [*(day for day in dates if day is not None), *_triggers(fields, depth)]
    return Excluding(_decode(fields["trigger"], depth + 1), *excluded, tz=fields.get("tz"))


#: The fields of each kind that must be there, those that may be, and who makes the trigger.
_KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], Callable[[dict[str, Any], int], Trigger]]] = {
    "cron": (("expression",), ("tz", "gap", "fold"), _cron),
    "every": (("seconds",), ("start",), _every),
    "calendar": ((), ("years", "months", "weeks", "days", "at", "tz", "gap", "fold", "start"), _calendar),
    "at": (("moment",), (), _at),
    "any_of": (("triggers",), (), _any_of),
    "all_of": (("triggers",), (), _all_of),
    "excluding": (("trigger",), ("dates", "triggers", "tz"), _excluding),
}


def _triggers(fields: dict[str, Any], depth: int) -> list[Trigger]:
    return [_decode(data, depth + 1) for data in _list("triggers", fields.get("triggers", []))]


def _list(what: str, value: object) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{what} must be a list, not {type(value).__name__}")
    return list(value)


def _moment(what: str, value: object) -> datetime | None:
    found = _date_or_moment(what, value)
    if found is not None and not isinstance(found, datetime):
        raise ValueError(f"{what} must have a time and an offset, such as 2026-12-01T09:00:00+00:00; got {value!r}")
    return found


def _date_or_moment(what: str, value: object) -> date | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        # What a msgpack of another writer carries as a timestamp.
        return value
    if not isinstance(value, str):
        raise TypeError(f"{what} must be an ISO 8601 text, not {type(value).__name__}")
    try:
        return date.fromisoformat(value) if len(value) == len("2026-12-01") else datetime.fromisoformat(value)
    except ValueError:
        raise ValueError(f"{what} must be ISO 8601, such as 2026-12-01T09:00:00+00:00; got {value!r}") from None
