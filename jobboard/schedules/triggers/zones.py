"""Zones by their names in the tz database, which every host has its own copy of."""

from __future__ import annotations

import difflib
import zoneinfo
from datetime import UTC, tzinfo
from functools import cache

#: Files beside the zones that mean another thing on every host, or count leap seconds.
_NO_ZONES = ("localtime", "posixrules", "posix/", "right/", "Factory")


def check_zone(what: str, value: object) -> str:
    """Return the name of a zone, given as its name, a ``ZoneInfo`` or ``datetime.UTC``."""
    if value is UTC:
        return "UTC"
    name = value.key if isinstance(value, zoneinfo.ZoneInfo) else value
    if not isinstance(name, str):
        raise TypeError(f"{what} must be the name of a zone, such as 'Europe/Berlin', not {_kind(value)}")
    if name.startswith(_NO_ZONES):
        raise ValueError(f"{what}: {name!r} is not the same zone on every host; name one, such as 'Europe/Berlin'")
    zone_named(name, what)
    return name


def _kind(value: object) -> str:
    return "a ZoneInfo without a key" if isinstance(value, zoneinfo.ZoneInfo) else type(value).__name__


@cache
def zone_named(name: str, what: str = "tz") -> tzinfo:
    """Return a zone; UTC is there also where no tz database is."""
    if name == "UTC":
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # OSError: the name is that of a folder, such as "America".
        raise ValueError(f"{what}: there is no zone {name!r}{_advice(name)}") from None


def _advice(name: str) -> str:
    known = zoneinfo.available_timezones()
    if not known:
        return "; this host has no tz database: pip install 'jobboard[scheduler]'"
    by_folded = {zone.lower(): zone for zone in known} | {zone.rpartition("/")[2].lower(): zone for zone in known}
    near = difflib.get_close_matches(name.strip().lower().replace(" ", "_"), by_folded, n=1, cutoff=0.7)
    return f"; did you mean {by_folded[near[0]]!r}?" if near else "; names are those of the tz database"
