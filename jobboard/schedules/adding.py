"""Schedules are put on a board: each is checked, and added or put in another one's place in one step."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from jobboard.backends.schedule_rows import ScheduleStep
from jobboard.client import BackendClient
from jobboard.errors import NotSupported
from jobboard.schedules.changes import ScheduleChange, in_place_of
from jobboard.schedules.operators import NOBODY, Operator
from jobboard.schedules.schedule import Schedule, with_plain_details
from jobboard.schedules.stored_schedules import ChangeOrAdd, StoredSchedules
from jobboard.schedules.transitions import Stored, change_of, first_progress, is_put_off_by_start, kept_progress
from jobboard.schedules.triggers.every import check_interval
from jobboard.validation import moment

logger = logging.getLogger("jobboard.schedules")

#: Whether the second takes the place of the first, which is there; may raise.
Replaces = Callable[[Schedule, Schedule], bool]


class Adding:
    """Puts schedules on the board of a client."""

    def __init__(self, client: BackendClient, stored: StoredSchedules) -> None:
        self._client = client
        self._stored = stored

    def checked(self, schedule: Schedule) -> Schedule:
        """Return a schedule as this board keeps it; raises what is wrong with it, as :meth:`Schedules.add` says."""
        if not isinstance(schedule, Schedule):
            raise TypeError(f"schedule must be a Schedule, not {type(schedule).__name__}")
        kept = self.kept(schedule)
        self.check_lane(schedule)
        check_interval(schedule.trigger, self._client.least_interval)
        return kept

    def kept(self, schedule: Schedule) -> Schedule:
        """Return a schedule with its details as the board keeps them."""
        return with_plain_details(schedule, self._client.largest_details, self._client.converter)

    def check_lane(self, schedule: Schedule) -> None:
        """Raise :class:`NotSupported` if it has a lane that the board can't limit."""
        if schedule.lane is not None and self._client.backend.capabilities.sharded:
            raise NotSupported(
                f"schedule {schedule.id!r} can't have a lane on a board of shards: it posts on its own shard, and the "
                "limits of the lane hold on another one; let its job post one with that lane"
            )

    def put(
        self,
        fresh: Schedule,
        replaces: Replaces,
        first: float | None = None,
        operator: Operator = NOBODY,
    ) -> tuple[Schedule, ScheduleChange | None]:
        """Put a schedule on the board, and return it as it is there then, and what was changed.

        :param fresh: it was checked; of its progress only the source is kept.
        :param replaces: whether it takes the place of a schedule that is there.
        :param first: its first fire time, if its times are new.
        """
        changes: list[ScheduleChange] = []
        there = self._stored.change_or_add(fresh.id, _decision(fresh, replaces, first, operator, changes))
        change = changes[0] if changes else None
        _warn_if_put_off(change, there)
        return there, change

    def try_all(self, wanted: Sequence[Schedule], replaces: Replaces, operator: Operator) -> dict[str, ScheduleChange]:
        """Put schedules on the board together, as far as nobody changes one meanwhile; return what was changed, by id.

        :param wanted: they were checked, and have different ids.
        :param replaces: whether one takes the place of a schedule that is there.
        """
        changes: dict[str, list[ScheduleChange]] = {fresh.id: [] for fresh in wanted}
        made = self._stored.try_all(
            {fresh.id: _decision(fresh, replaces, None, operator, changes[fresh.id]) for fresh in wanted}
        )
        for id, there in made.items():
            _warn_if_put_off(changes[id][0], there)
        return {id: changes[id][0] for id in made}


def _decision(
    fresh: Schedule,
    replaces: Replaces,
    first: float | None,
    operator: Operator,
    changes: list[ScheduleChange],
) -> ChangeOrAdd:
    """Return what decides about one schedule, and leaves the change in ``changes``."""

    def decide(old: Stored | None, now: float) -> ScheduleStep | None:
        changes.clear()
        if old is not None and not replaces(old.schedule, fresh):
            return None
        new = fresh if old is None else in_place_of(old.schedule, fresh)
        progress = first_progress(new, now, first) if old is None else kept_progress(old.schedule, new, now, first)
        progress.set_source(fresh.source, moment(now))
        changes.append(ScheduleChange(None if old is None else old.schedule, new))
        version, what = (None, "added") if old is None else (old.version, "replaced")
        return change_of(new, version, progress, now, what, operator)

    return decide


def _warn_if_put_off(change: ScheduleChange | None, added: Schedule) -> None:
    before = None if change is None else change.before
    if before is None:
        return
    assert added.progress is not None
    if is_put_off_by_start(before, added, added.progress):
        logger.warning(
            "schedule %r: only the start of its trigger has changed, which puts off its next fire time from %s to "
            "%s. If start is the present moment whenever the program begins, leave it out",
            added.id, before.next_fire_time, added.next_fire_time,
        )  # fmt: skip
