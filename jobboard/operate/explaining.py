"""Triggers in words, and their next fire times as people read them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import islice
from typing import Any

from jobboard.schedules.triggers import AllOf, AnyOf, At, Calendar, Cron, Every, Excluding, Trigger, trigger_from_plain
from jobboard.schedules.triggers.cron_text import fields_of
from jobboard.schedules.triggers.trigger import zones_of
from jobboard.schedules.triggers.zones import zone_named
from jobboard.text import utc

_UNITS = (("week", 604_800), ("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))
_SHORT = {"day": "d", "hour": "h", "minute": "min", "second": "s"}
#: More dates than these are only counted.
MAX_DATES = 5


@dataclass(frozen=True, slots=True)
class Upcoming:
    """One fire time: in UTC, on the clocks of the trigger's zone, and seconds from now.

    :ivar note: how a change of the clocks affects it, if one does.
    """

    fire_time: datetime
    local: datetime
    seconds: float
    note: str | None

    def view(self) -> dict[str, Any]:
        """Return it as plain data; ``local`` is text, with its offset."""
        return {
            "fire_time": self.fire_time,
            "local": self.local.isoformat(),
            "weekday": f"{self.local:%A}",
            "seconds": self.seconds,
            "note": self.note,
        }

    def line(self) -> str:
        note = f"  ({self.note})" if self.note else ""
        return f"{self.local:%a %Y-%m-%d %H:%M:%S} {_offset(self.local)}  {distance(self.seconds)}{note}"


def explain(trigger: Trigger) -> str:
    """Return a trigger in words, such as ``at 03:00 on Monday to Friday, Europe/Berlin``."""
    if isinstance(trigger, Cron):
        return _explain_cron(trigger)
    if isinstance(trigger, Every):
        return _explain_every(trigger)
    if isinstance(trigger, Calendar):
        return _explain_calendar(trigger)
    if isinstance(trigger, At):
        return f"once, at {utc(trigger.moment)}"
    if isinstance(trigger, AnyOf):
        return "; or ".join(map(explain, trigger.triggers))
    if isinstance(trigger, AllOf):
        return "when these are at the same moment: " + "; and ".join(map(explain, trigger.triggers))
    if isinstance(trigger, Excluding):
        return _explain_excluding(trigger)
    return repr(trigger)


def upcoming(trigger: Trigger, after: datetime, count: int) -> list[Upcoming]:
    """Return the next fire times, at most ``count`` of them; fewer if there are no more."""
    zone = zone_named(zone_of(trigger))
    return [
        Upcoming(time, time.astimezone(zone), (time - after).total_seconds(), _note(trigger, time, zone))
        for time in islice(_fire_times(trigger, after), count)
    ]


def zone_of(trigger: Trigger) -> str:
    """Return the zone in which to show a trigger: its own, or UTC if it has none or several."""
    zones = zones_of(trigger)
    return zones.pop() if len(zones) == 1 else "UTC"


def distance(seconds: float) -> str:
    """Return how far away a moment is, in its two largest units: ``in 1 d 12 h``, ``5 min ago``."""
    parts = _parts(round(abs(seconds)), _UNITS[1:])[:2]
    text = " ".join(f"{number} {_SHORT[unit]}" for number, unit in parts) or "0 s"
    return f"in {text}" if seconds >= 0 else f"{text} ago"


def _fire_times(trigger: Trigger, after: datetime) -> Iterator[datetime]:
    time = trigger.next_fire_time(after)
    while time is not None:
        yield time
        time = trigger.next_fire_time(time)


def _note(trigger: Trigger, time: datetime, zone: tzinfo) -> str | None:
    """Say how a change of the clocks affects a fixed time."""
    if not isinstance(trigger, Calendar) and not (isinstance(trigger, Cron) and trigger.is_fixed):
        return None
    local = time.astimezone(zone)
    if local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset():
        return f"clocks show this time twice; the {'second' if local.fold else 'first'}"
    just_before = (time - timedelta(seconds=1)).astimezone(zone)
    jumped = local.replace(tzinfo=None) - just_before.replace(tzinfo=None)
    if jumped > timedelta(seconds=1) and not _is_its_own_time(trigger, time):
        return f"clocks skip its time, from {just_before + timedelta(seconds=1):%H:%M} to {local:%H:%M}"
    return None


def _is_its_own_time(trigger: Cron | Calendar, time: datetime) -> bool:
    """Whether it is due then also with ``gap="skip"``."""
    unshifted = trigger_from_plain({**trigger.to_plain(), "gap": "skip"})
    return unshifted.latest_fire_time(time - timedelta(microseconds=1), time) is not None


def _explain_cron(trigger: Cron) -> str:
    from cronsim.explain import Expression

    fields = fields_of(trigger.expression)
    text = Expression(fields).explain()
    text = _with_ordinals(text).replace(" through ", " to ").replace(" of month ", " of the month ")
    if not fields[3].startswith("*") and not fields[5].startswith("*"):
        # With two sets of days, cron takes a day that is in one of them.
        text = text.replace(" and on ", " or on ", 1)
    return f"{text[0].lower()}{text[1:]}, {trigger.tz}{_policy(trigger) if trigger.is_fixed else ''}"


def _with_ordinals(text: str) -> str:
    """Correct cronsim's 21th, 22th, 23th."""
    return re.sub(r"\b(\d*)([123])th\b", _ordinal, text)


def _ordinal(match: re.Match[str]) -> str:
    tens, one = match.groups()
    return match.group() if tens.endswith("1") else f"{tens}{one}{('st', 'nd', 'rd')[int(one) - 1]}"


def _policy(trigger: Cron | Calendar) -> str:
    gap = "; left out when clocks skip it" if trigger.gap == "skip" else ""
    return (
        gap
        + {
            "first": "",
            "second": "; the second one when clocks show it twice",
            "both": "; both when clocks show it twice",
        }[trigger.fold]
    )


def _explain_every(trigger: Every) -> str:
    start = f", from {utc(trigger.start)}" if trigger.start else ""
    seconds = trigger.seconds
    if seconds != int(seconds):
        return f"every {seconds:g} seconds{start}"
    parts = _parts(int(seconds))
    if len(parts) == 1 and parts[0][0] == 1:
        return f"every {parts[0][1]}{start}"
    return "every " + " ".join(f"{number} {unit}{'s' * (number != 1)}" for number, unit in parts) + start


def _explain_calendar(trigger: Calendar) -> str:
    unit = trigger.unit.removesuffix("s")
    every = f"every {unit}" if trigger.count == 1 else f"every {trigger.count} {unit}s"
    start = ""
    if isinstance(trigger.start, datetime):
        start = f", from {utc(trigger.start)}"
    elif trigger.start is not None:
        start = f", from {trigger.start}"
    return f"{every} at {trigger.at}{start}, {trigger.tz}{_policy(trigger)}"


def _explain_excluding(trigger: Excluding) -> str:
    exceptions = []
    if len(trigger.dates) > MAX_DATES:
        exceptions.append(f"on {len(trigger.dates)} dates from {trigger.dates[0]} to {trigger.dates[-1]}")
    elif trigger.dates:
        exceptions.append("on " + ", ".join(map(str, trigger.dates)))
    exceptions += [f"when it is due {explain(other)}" for other in trigger.triggers]
    return f"{explain(trigger.trigger)}, except {' and '.join(exceptions)}"


def _parts(seconds: int, units: Sequence[tuple[str, int]] = _UNITS) -> list[tuple[int, str]]:
    """Split whole seconds into units, the largest first, without those that are 0."""
    found = []
    for unit, length in units:
        number, seconds = divmod(seconds, length)
        if number:
            found.append((number, unit))
    return found


def _offset(local: datetime) -> str:
    offset = local.isoformat()[19:]
    return offset if not offset.startswith(".") else offset[7:]
