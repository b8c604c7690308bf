"""A board's schedules follow those of a program, a file or the settings, as ``migrate`` does with tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from jobboard.client import BackendClient
from jobboard.schedules.adding import Adding
from jobboard.schedules.changes import ScheduleChange, in_place_of
from jobboard.schedules.operators import NOBODY, Operator
from jobboard.schedules.progress import Progress
from jobboard.schedules.schedule import Schedule, pack_schedule, unpack_schedule
from jobboard.schedules.stored_schedules import StoredSchedules
from jobboard.schedules.transitions import first_progress

_ANY_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)


class Applying:
    """Makes the schedules of one source those of the board; what others added stays.

    :param source: it is kept with each schedule; None if the schedules themselves say where they are from.
    :param owns: whether a schedule of the board is from an earlier apply of the same source.
    """

    def __init__(self, client: BackendClient, source: str | None, owns: Callable[[Schedule], bool]) -> None:
        self._client = client
        self._stored = StoredSchedules(client)
        self._adding = Adding(client, self._stored)
        self._source = source
        self._owns = owns

    def changes_to(self, wanted: Iterable[Schedule]) -> list[ScheduleChange]:
        """Return what :meth:`apply` would change; first what is added and changed, then what is removed, by id."""
        fresh = self._checked(wanted)
        there = {schedule.id: schedule for schedule in self._stored.readable()}
        added = [new for id, new in fresh.items() if id not in there]
        self._check_fires(added)
        changes = [
            _replacing(there[id], new) if id in there else ScheduleChange(None, new) for id, new in fresh.items()
        ]
        changes = [change for change in changes if change.before is None or change.fields]
        gone = [there[id] for id in sorted(there.keys() - fresh.keys()) if self._owns(there[id])]
        return changes + [ScheduleChange(schedule, None) for schedule in gone]

    def apply(self, wanted: Iterable[Schedule], operator: Operator = NOBODY) -> list[ScheduleChange]:
        """Make these changes, each in one step unless somebody else made it meanwhile, and return them."""
        changes = self.changes_to(wanted)
        fresh = [change.after for change in changes if change.after is not None]
        made = self._adding.try_all(fresh, _differ, operator)
        rest = (made[change.id] if change.id in made else self._make(change, operator) for change in changes)
        return [change for change in rest if change is not None]

    def _make(self, change: ScheduleChange, operator: Operator) -> ScheduleChange | None:
        wanted = change.after
        if wanted is None:
            removed = self._stored.remove_if(change.id, self._owns, operator)
            return None if removed is None else ScheduleChange(removed, None)
        self._stored.remove_unreadable(wanted.id)
        return self._adding.put(wanted, _differ, operator=operator)[1]

    def _checked(self, wanted: Iterable[Schedule]) -> dict[str, Schedule]:
        found: dict[str, Schedule] = {}
        for schedule in wanted:
            kept = self._adding.checked(schedule)
            if kept.id in found:
                raise ValueError(f"there are two schedules {kept.id!r}")
            found[kept.id] = self._as_stored(kept)
        return found

    def _as_stored(self, schedule: Schedule) -> Schedule:
        """Return it as a board would give it back: a tuple in its details is a list there, and no difference."""
        progress = Progress(0.0)
        progress.set_source(self._source, _ANY_MOMENT)
        return unpack_schedule(schedule.id, pack_schedule(schedule, progress))

    def _check_fires(self, added: Sequence[Schedule]) -> None:
        """Raise ``ValueError`` for one that would never fire, before anything is changed."""
        now = self._client.call(self._client.backend.now) if added else 0.0
        for schedule in added:
            first_progress(schedule, now)


def _replacing(old: Schedule, wanted: Schedule) -> ScheduleChange:
    return ScheduleChange(old, in_place_of(old, wanted))


def _differ(old: Schedule, wanted: Schedule) -> bool:
    return bool(_replacing(old, wanted).fields)
