"""Looking at schedules: one, all in the order of their next fire times, what is to come and what has been."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from jobboard.backends.rows import ScheduleRow
from jobboard.client import BackendClient
from jobboard.errors import NotFound, UnreadableSchedule
from jobboard.schedules.planning import due_at, fire_times
from jobboard.schedules.progress import FireRecord
from jobboard.schedules.schedule import Schedule, check_schedule_id
from jobboard.schedules.stored import unpack_schedule
from jobboard.schedules.transitions import Stored
from jobboard.validation import check_count, moment

_PAGE = 500


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A schedule whose bytes can't be decoded, and why; it can be removed or replaced.

    It is never due, but for one of a newer format, which newer schedulers fire.
    """

    id: str
    fault: str


class ScheduleList:
    """The reading side of :class:`~jobboard.schedules.collection.Schedules`."""

    def __init__(self, client: BackendClient) -> None:
        self._client = client
        self._backend = client.backend

    def get(self, id: str) -> Schedule:
        """Return a schedule with its progress as it is now.

        :raises NotFound: there is none of this id.
        :raises UnreadableSchedule: it can't be decoded.
        """
        row = self._entry(id)
        if row is None:
            raise NotFound(f"no schedule {id!r} on board {self._client.name!r}")
        return self._readable_of(row)

    def __iter__(self) -> Iterator[Schedule]:
        """Iterate over the schedules by next fire time, those without one last; a page of 500 a request.

        Those that can't be decoded are left out; see :meth:`unreadable`.
        """
        for row in self._entries():
            try:
                yield self._readable_of(row)
            except UnreadableSchedule:
                continue

    def unreadable(self) -> list[Unreadable]:
        """Return the schedules that can't be decoded."""
        found = []
        for row in self._entries():
            try:
                self._readable_of(row)
            except UnreadableSchedule as error:
                found.append(Unreadable(row.id, str(error)))
        return found

    def upcoming(self, id: str, count: int) -> list[datetime]:
        """Return the next ``count`` fire times, or fewer if there are no more; no jitter is in them.

        A paused schedule has those that it would have if it were resumed now.
        """
        check_count("count", count)
        schedule = self.get(id)
        progress = schedule.progress
        assert progress is not None
        if schedule.max_runs is not None:
            count = min(count, max(0, schedule.max_runs - progress.runs))
        after = self._client.call(self._backend.now) if schedule.paused else progress.settled
        return [moment(time) for time in islice(fire_times(schedule, after), count)]

    def due_at(self, id: str) -> datetime | None:
        """Return when the schedule is due next, its jitter included; None if it is not."""
        schedule = self.get(id)
        upcoming = schedule.next_fire_time
        return None if upcoming is None else moment(due_at(schedule, upcoming.timestamp()))

    def history(self, id: str) -> list[FireRecord]:
        """Return what became of the last fire times, oldest first; the last 20 lines are kept."""
        progress = self.get(id).progress
        assert progress is not None
        return list(progress.history)

    def _entry(self, id: str) -> ScheduleRow | None:
        return self._client.call(self._backend.read_schedules, [check_schedule_id(id)])[0]

    def _stored(self, id: str) -> Stored | None:
        row = self._entry(id)
        return None if row is None else Stored(self._readable_of(row), row.version)

    def _readable_of(self, row: ScheduleRow) -> Schedule:
        try:
            schedule = unpack_schedule(row.id, row.body)
        except ValueError as error:
            raise UnreadableSchedule(f"schedule {row.id!r} can't be decoded: {error}") from None
        if row.next_at is None and schedule.state == "active" and schedule.progress is not None:
            # Whoever could not decode it took it out of the order of what is due, and left its bytes alone.
            schedule.progress.fault = "a scheduler of another version could not decode it"
        return schedule

    def _entries(self) -> Iterator[ScheduleRow]:
        cursor: object | None = None
        while True:
            page = self._client.call(self._backend.page_schedules, cursor, _PAGE)
            yield from page.rows
            cursor = page.cursor
            if cursor is None:
                return
