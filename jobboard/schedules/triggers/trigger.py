"""What every trigger does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from typing import Any

from jobboard.schedules.triggers.instants import datetime_of, instant_of, within_calendar


class Trigger(ABC):
    """Says when something is due: a row of fire times, without state, the same for everybody who asks.

    Fire times are aware datetimes in UTC, whatever zone the trigger counts in: unlike times of a zone they compare and
    subtract as instants, also around the changes of its clocks. ``time.astimezone(ZoneInfo("Europe/Berlin"))`` shows
    one on a clock on a wall. Triggers are immutable; equal ones have the same plain data.
    """

    def next_fire_time(self, after: datetime) -> datetime | None:
        """Return the first fire time strictly later than ``after``, in UTC; None if there is none any more.

        :param after: an aware datetime, in any zone.
        :raises TypeError: ``after`` is no datetime.
        :raises ValueError: ``after`` is naive.
        :raises SearchEnded: ``AllOf`` or ``Excluding`` found none within their bound.
        """
        found = within_calendar(self.first_after(instant_of("after", after)))
        return None if found is None else datetime_of(found)

    def latest_fire_time(self, after: datetime, until: datetime) -> datetime | None:
        """Return the last fire time later than ``after`` and not later than ``until``; None if there is none.

        It is found from its end, so years of missed fire times cost no more than one of them.
        """
        floor = instant_of("after", after)
        found = within_calendar(self.last_within(floor, instant_of("until", until)))
        return None if found is None else datetime_of(found)

    @abstractmethod
    def to_plain(self) -> dict[str, Any]:
        """Return text, numbers, lists and dicts that ``trigger_from_plain`` makes an equal trigger of."""

    @abstractmethod
    def first_after(self, instant: int) -> int | None:
        """As :meth:`next_fire_time`, in instants."""

    @abstractmethod
    def last_within(self, after: int, until: int) -> int | None:
        """As :meth:`latest_fire_time`, in instants."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trigger):
            return NotImplemented
        return type(self) is type(other) and self.to_plain() == other.to_plain()

    def __hash__(self) -> int:
        return hash(repr(self))


def zones_of(trigger: Trigger) -> set[str]:
    """Return the zones on whose clocks it counts: its own, or those of its parts; none if it counts elapsed time."""
    zone = getattr(trigger, "tz", None)
    if zone is not None:
        return {zone}
    return {zone for part in getattr(trigger, "triggers", ()) for zone in zones_of(part)}


def check_trigger(what: str, value: object) -> Trigger:
    if not isinstance(value, Trigger):
        raise TypeError(f"{what} must be a trigger, such as Cron('0 3 * * *'), not {type(value).__name__}")
    return value
