"""AnyOf and AllOf: whenever one of several triggers is due, or all of them at the same moment."""

from __future__ import annotations

from typing import Any

from jobboard.errors import SearchEnded
from jobboard.schedules.triggers.instants import EARLIEST, LATEST, MAX_SEARCH, MAX_STEPS, text_of
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


class AllOf(Trigger):
    """Due when all of its triggers are due at the same moment: ``AllOf(Cron("0 9 * * mon"), Calendar(weeks=2, ...))``.

    A moment is exact to the microsecond: 09:00 in two zones is not the same. The search for the next one is bounded:
    after 20000 moments at which some but not all are due, or a hundred years of them, it raises ``SearchEnded``.
    """

    def __init__(self, *triggers: Trigger) -> None:
        self.triggers = check_triggers("AllOf", triggers)

    def first_after(self, instant: int) -> int | None:
        candidate, limit = instant + 1, LATEST
        for look in range(MAX_STEPS):
            found = candidate
            for trigger in self.triggers:
                time = trigger.first_after(found - 1)
                if time is None:
                    return None
                found = time
            if found == candidate:
                # Nobody moved it: all are due.
                return found
            if look == 0:
                limit = found + MAX_SEARCH
            elif found > limit:
                break
            candidate = found
        raise self._ended("after", instant)

    def last_within(self, after: int, until: int) -> int | None:
        candidate, limit = until, EARLIEST
        for look in range(MAX_STEPS):
            found = candidate
            for trigger in self.triggers:
                time = trigger.last_within(after, found)
                if time is None:
                    return None
                found = time
            if found == candidate:
                return found
            if look == 0:
                limit = found - MAX_SEARCH
            elif found < limit:
                break
            candidate = found
        raise self._ended("until", until)

    def _ended(self, word: str, instant: int) -> SearchEnded:
        return SearchEnded(
            f"AllOf found no moment {word} {text_of(instant)} at which all of its triggers are due, among "
            f"{MAX_STEPS} or a hundred years of those at which some are; perhaps they never are together: {self!r}"
        )

    def to_plain(self) -> dict[str, Any]:
        return {"kind": "all_of", "triggers": [trigger.to_plain() for trigger in self.triggers]}

    def __repr__(self) -> str:
        return f"AllOf({', '.join(map(repr, self.triggers))})"
