"""The options that say when a schedule is due: the trigger that they make, or make of the one that it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click

from jobboard.cli.values import json_of, moment_of
from jobboard.schedules.triggers import At, Calendar, Cron, Every, Excluding, Trigger, trigger_from_plain
from jobboard.schedules.triggers.trigger import zones_of
from jobboard.schedules.triggers.zones import check_zone

#: Each option that says when, and what makes a trigger of its text.
_TRIGGER_OF: dict[str, Callable[..., Trigger]] = {
    "cron": Cron,
    "every": lambda seconds: Every(seconds=seconds),
    "once": lambda text: At(moment_of("--once", text)),
    "trigger": lambda text: trigger_from_plain(json_of("--trigger", text)),
}

_CLOCKS = ("tz", "gap", "fold")


@dataclass(frozen=True, slots=True)
class Times:
    """The options that say when.

    :ivar given: those that are given.
    :ivar alone: the trigger that they make by themselves; None if they make none.
    """

    given: dict[str, Any]
    alone: Trigger | None

    @classmethod
    def taken_from(cls, options: dict[str, Any]) -> Times:
        """Remove the options that say when from the given ones, and check them."""
        given = {what: value for what in (*_TRIGGER_OF, *_CLOCKS) if (value := options.pop(what, None)) is not None}
        whens = [what for what in _TRIGGER_OF if what in given]
        clocks = {what: given[what] for what in _CLOCKS if what in given}
        if len(whens) > 1:
            raise click.UsageError(f"give one of {', '.join(f'--{what}' for what in whens)}, not several")
        if whens and clocks and whens != ["cron"]:
            raise click.UsageError(f"--{next(iter(clocks))} belongs to --cron")
        if "tz" in given:
            check_zone("tz", given["tz"])
        # Made once: its text may be standard input.
        return cls(given, _TRIGGER_OF[whens[0]](given[whens[0]], **clocks) if whens else None)

    def of_new(self) -> Trigger:
        """Return the trigger of a new schedule.

        :raises click.UsageError: nothing says when.
        """
        if self.alone is None:
            raise click.UsageError("say when: --cron, --every, --once or --trigger")
        return self.alone

    def instead_of(self, present: Trigger) -> Trigger:
        """Return the present trigger with what is given; its zone, policies, start and exclusions stay otherwise.

        :raises click.UsageError: the present trigger has several zones, or no clocks that could be others.
        """
        if isinstance(self.alone, At) or "trigger" in self.given:
            return self.of_new()
        if isinstance(present, Excluding):
            return self._excluding(present)
        if "cron" in self.given:
            return Cron(self.given["cron"], **self._clocks_beside(present))
        if "every" in self.given:
            return Every(seconds=self.given["every"], start=present.start if isinstance(present, Every) else None)
        if not isinstance(present, (Cron, Calendar)):
            option = next(iter(self.given))
            raise click.UsageError(f"--{option} is for a crontab or a calendar; this schedule has {present!r}")
        return trigger_from_plain(present.to_plain() | self.given)

    def _excluding(self, present: Excluding) -> Trigger:
        """Keep what is excluded; its dates go along with the zone of the trigger, if they were meant in that one."""
        inner = self.instead_of(present.trigger)
        before, after = zones_of(present.trigger), zones_of(inner)
        zone = after.pop() if before == {present.tz} and len(after) == 1 else present.tz
        return Excluding(inner, *present.dates, *present.triggers, tz=zone)

    def _clocks_beside(self, present: Trigger) -> dict[str, Any]:
        """Return the zone and policies of a crontab string that takes the place of the present trigger."""
        zones = zones_of(present)
        if len(zones) > 1 and "tz" not in self.given:
            raise click.UsageError(f"say --tz: the schedule is due on the clocks of {' and '.join(sorted(zones))}")
        kept = {"tz": zones.pop()} if len(zones) == 1 else {}
        if isinstance(present, (Cron, Calendar)):
            kept |= {"gap": present.gap, "fold": present.fold}
        return kept | {what: self.given[what] for what in _CLOCKS if what in self.given}
