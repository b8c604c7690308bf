"""The schedules' primitives: each step is taken as a whole, under the lock."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import cast

from jobboard.backends.memory.posting import Posting
from jobboard.backends.rows import DueSchedules, SchedulePage, ScheduleRow, ScheduleStep, Verdict
from jobboard.events import JobEvent
from jobboard.validation import moment

#: After every moment: where those stand that are not due.
_NEVER = float("inf")

Place = tuple[float, str]


class Scheduling(Posting):
    """Posts by the same plan as ``post``, before the lock is let go."""

    def step_schedules(self, steps: Sequence[ScheduleStep]) -> list[Verdict]:
        with self._lock:
            now = self._begin()
            return [self._step(step, now) for step in steps]

    def _step(self, step: ScheduleStep, now: float) -> Verdict:
        stored = self._shelf.schedules.get(step.id)
        version = None if stored is None else stored.version
        if version == (None if step.row is None else step.row.version):
            return Verdict.REPEATED
        if version != step.after:
            return Verdict.LOST
        self.post(step.postings)
        self._put_schedule(stored, step.row)
        for told in step.announcements:
            event = JobEvent(told.kind, told.uuid, told.name, told.who, None, moment(now), told.reason)
            self._shelf.tell(event)
        return Verdict.DONE

    def _put_schedule(self, old: ScheduleRow | None, new: ScheduleRow | None) -> None:
        shelf = self._shelf
        if old is not None:
            shelf.schedule_order.remove(_place_of(old))
            del shelf.schedules[old.id]
        if new is not None:
            shelf.schedule_order.add(_place_of(new))
            shelf.schedules[new.id] = new

    def read_schedules(self, ids: Sequence[str]) -> list[ScheduleRow | None]:
        with self._lock:
            self._begin()
            return [self._shelf.schedules.get(id) for id in ids]

    def due_schedules(self, limit: int) -> DueSchedules:
        with self._lock:
            now = self._begin()
            rows: list[ScheduleRow] = []
            for at, id in self._shelf.schedule_order:
                if at > now or len(rows) == limit:
                    return DueSchedules(rows, None if at == _NEVER else at - now, now)
                rows.append(self._shelf.schedules[id])
            return DueSchedules(rows, None, now)

    def page_schedules(self, cursor: object | None, size: int) -> SchedulePage:
        with self._lock:
            self._begin()
            order = self._shelf.schedule_order
            places = iter(order) if cursor is None else order.after(cast(Place, cursor))
            page = list(islice(places, size))
            rows = [self._shelf.schedules[id] for _, id in page]
            return SchedulePage(rows, page[-1] if len(page) == size else None)


def _place_of(row: ScheduleRow) -> Place:
    return (_NEVER if row.next_at is None else row.next_at, row.id)
