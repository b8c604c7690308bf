"""Excluding: a trigger without some of its fire times."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from jobboard.errors import SearchEnded
from jobboard.schedules.triggers.at import At
from jobboard.schedules.triggers.clocks import DAY, Clock
from jobboard.schedules.triggers.instants import EARLIEST, LATEST, MAX_SEARCH, MAX_STEPS, SECOND, text_of
from jobboard.schedules.triggers.trigger import Trigger, check_trigger, zones_of
from jobboard.schedules.triggers.zones import check_zone

_EPOCH = date(1970, 1, 1)


class Excluding(Trigger):
    """A trigger without some fire times: ``Excluding(Cron("0 9 * * *", tz="Europe/Berlin"), date(2026, 12, 25))``.

    The search for the next one is bounded: after 20000 that are excluded, or a hundred years of them, it raises
    ``SearchEnded``.

    :param trigger: what is due otherwise.
    :param excluded: dates (the whole date, on the clocks of ``tz``), aware datetimes (that moment), and triggers (each
        moment at which one of them is due).
    :param tz: the zone of the dates; by default that of ``trigger``, or UTC if it has none. Must be given with dates if
        ``trigger`` is made of triggers of several zones.
    """

    def __init__(self, trigger: Trigger, *excluded: date | Trigger, tz: Any = None) -> None:
        self.trigger = check_trigger("the trigger of Excluding", trigger)
        if not excluded:
            raise ValueError("Excluding needs what it excludes: dates, aware datetimes or triggers")
        dates: list[date] = []
        triggers: list[Trigger] = []
        for number, what in enumerate(excluded, start=1):
            if isinstance(what, datetime):
                triggers.append(At(what))
            elif isinstance(what, date):
                dates.append(what)
            elif isinstance(what, Trigger):
                triggers.append(what)
            else:
                raise TypeError(
                    f"exclusion {number} of Excluding must be a date, an aware datetime or a trigger, "
                    f"not {type(what).__name__}"
                )
        self.dates = tuple(sorted(set(dates)))
        self.tz = self._zone() if tz is None else check_zone("tz", tz)
        self.triggers = tuple(triggers)
        self._days = frozenset((day - _EPOCH).days for day in self.dates)
        self._clock = Clock(self.tz)

    def _zone(self) -> str:
        zones = zones_of(self.trigger)
        if self.dates and len(zones) > 1:
            raise ValueError(f"tz must be given: the dates may be meant in {' or in '.join(sorted(zones))}")
        return zones.pop() if len(zones) == 1 else "UTC"

    def first_after(self, instant: int) -> int | None:
        after, limit = instant, LATEST
        for look in range(MAX_STEPS):
            found = self.trigger.first_after(after)
            if found is None:
                return None
            if look == 0:
                limit = found + MAX_SEARCH
            elif found > limit:
                break
            excluded = self._excluded_around(found)
            if excluded is None:
                return found
            after = excluded[1]
        raise self._ended("after", instant)

    def last_within(self, after: int, until: int) -> int | None:
        before, limit = until, EARLIEST
        for look in range(MAX_STEPS):
            found = self.trigger.last_within(after, before)
            if found is None:
                return None
            if look == 0:
                limit = found - MAX_SEARCH
            elif found < limit:
                break
            excluded = self._excluded_around(found)
            if excluded is None:
                return found
            before = excluded[0] - 1
        raise self._ended("until", until)

    def _excluded_around(self, instant: int) -> tuple[int, int] | None:
        """Return the first and the last instant of what is excluded around this one; None if it is not."""
        if self._days:
            second = instant // SECOND
            stretch = self._clock.stretch_at(second)
            wall = second + stretch.offset
            if wall // DAY in self._days:
                begin = max(stretch.start, second - wall % DAY)
                end = min(stretch.end, second - wall % DAY + DAY)
                return begin * SECOND, end * SECOND - 1
        if any(trigger.first_after(instant - 1) == instant for trigger in self.triggers):
            return instant, instant
        return None

    def _ended(self, word: str, instant: int) -> SearchEnded:
        return SearchEnded(
            f"Excluding found nothing {word} {text_of(instant)} that is left: {MAX_STEPS} or a hundred years of fire "
            f"times in a row are excluded; perhaps all of them are: {self!r}"
        )

    def to_plain(self) -> dict[str, Any]:
        return {
            "kind": "excluding",
            "trigger": self.trigger.to_plain(),
            "dates": [day.isoformat() for day in self.dates],
            "triggers": [trigger.to_plain() for trigger in self.triggers],
            "tz": self.tz,
        }

    def __repr__(self) -> str:
        excluded = ", ".join([*(repr(day.isoformat()) for day in self.dates), *map(repr, self.triggers)])
        return f"Excluding({self.trigger!r}, {excluded}, tz={self.tz!r})"
