"""The schedules' primitives: each step is taken as a whole, under the lock."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends.memory.client import MemoryClient
from jobboard.backends.memory.jobs import Jobs
from jobboard.backends.roles import ScheduleStore
from jobboard.backends.rows import Verdict
from jobboard.backends.schedule_rows import DueSchedules, SchedulePage, ScheduleRow, ScheduleStep
from jobboard.events import JobEvent
from jobboard.validation import moment


class Schedules(ScheduleStore):
    """Posts by the same plan as ``post``, before it releases the lock."""

    def __init__(self, client: MemoryClient, jobs: Jobs) -> None:
        self._store, self._lock, self._begin = client.store, client.lock, client.begin
        self._jobs = jobs

    def step(self, steps: Sequence[ScheduleStep]) -> list[Verdict]:
        with self._lock:
            now = self._begin()
            return [self._take(step, now) for step in steps]

    def _take(self, step: ScheduleStep, now: float) -> Verdict:
        stored = self._store.schedules.get(step.id)
        verdict = step.verdict(None if stored is None else stored.version)
        if verdict is not Verdict.DONE:
            return verdict
        self._jobs.post(step.postings)
        self._put_schedule(stored, step.row)
        for told in step.events:
            event = JobEvent(told.kind, told.uuid, told.name, told.who, None, moment(now), told.reason)
            self._store.tell(event)
        return verdict

    def _put_schedule(self, old: ScheduleRow | None, new: ScheduleRow | None) -> None:
        store = self._store
        if old is not None:
            store.schedule_order.remove(store.schedule_order.place(old.next_at, old.id))
            del store.schedules[old.id]
        if new is not None:
            store.schedule_order.add(store.schedule_order.place(new.next_at, new.id))
            store.schedules[new.id] = new

    def read(self, ids: Sequence[str]) -> list[ScheduleRow | None]:
        with self._lock:
            self._begin()
            return [self._store.schedules.get(id) for id in ids]

    def due(self, limit: int) -> DueSchedules:
        with self._lock:
            now = self._begin()
            ids, next_at = self._store.schedule_order.due(now, limit)
            rows = [self._store.schedules[id] for id in ids]
            return DueSchedules(rows, None if next_at is None else next_at - now, now)

    def page(self, cursor: object | None, size: int) -> SchedulePage:
        with self._lock:
            self._begin()
            ids, following = self._store.schedule_order.page(cursor, size)
            return SchedulePage([self._store.schedules[id] for id in ids], following)
