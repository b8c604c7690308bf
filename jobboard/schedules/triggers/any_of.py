"""AnyOf: whenever one of several is due."""

from __future__ import annotations

from typing import Any

from jobboard.schedules.triggers.trigger import Trigger, check_trigger


class AnyOf(Trigger):
    """Due whenever one of its triggers is, once if several are at the same moment: ``AnyOf(Cron(...), At(...))``."""

    def __init__(self, *triggers: Trigger) -> None:
        self.triggers = check_triggers("AnyOf", triggers)

    def first_after(self, instant: int) -> int | None:
        found = (trigger.first_after(instant) for trigger in self.triggers)
        return min((time for time in found if time is not None), default=None)

    def last_within(self, after: int, until: int) -> int | None:
        found = (trigger.last_within(after, until) for trigger in self.triggers)
        return max((time for time in found if time is not None), default=None)

    def to_plain(self) -> dict[str, Any]:
        return {"kind": "any_of", "triggers": [trigger.to_plain() for trigger in self.triggers]}

    def __repr__(self) -> str:
        return f"AnyOf({', '.join(map(repr, self.triggers))})"


def check_triggers(what: str, triggers: tuple[Trigger, ...]) -> tuple[Trigger, ...]:
    if not triggers:
        raise ValueError(f"{what} needs triggers, such as {what}(Cron('0 3 * * *'), Every(hours=5))")
    for number, trigger in enumerate(triggers, start=1):
        check_trigger(f"trigger {number} of {what}", trigger)
    return triggers
