"""How a schedule on the board differs from one that is to take its place."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jobboard.schedules.schedule import Schedule


@dataclass(frozen=True, slots=True)
class ScheduleChange:
    """A schedule that differs: ``before`` is None of one that is added, ``after`` of one that is removed."""

    before: Schedule | None
    after: Schedule | None

    @property
    def id(self) -> str:
        """The schedule's id."""
        schedule = self.after or self.before
        assert schedule is not None
        return schedule.id

    @property
    def kind(self) -> str:
        """``"added"``, ``"changed"`` or ``"removed"``."""
        return "added" if self.before is None else "removed" if self.after is None else "changed"

    @property
    def fields(self) -> list[str]:
        """The fields that are changed: arguments of :class:`~jobboard.Schedule`, and ``"source"``."""
        if self.before is None or self.after is None:
            return []
        before, after = self.before.to_plain(), self.after.to_plain()
        moved = ["source"] if self.before.source != self.after.source else []
        return [name for name in before if before[name] != after[name]] + moved


def in_place_of(old: Schedule, new: Schedule) -> Schedule:
    """Return a replacement of a schedule, which stays paused.

    The operator who paused it knew why; a program that adds its schedules at each start does not.
    """
    return replace(new, paused=new.paused or old.paused)
