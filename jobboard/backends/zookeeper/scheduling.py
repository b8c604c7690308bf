"""The schedules' primitives: each step is one transaction, with what it posts and tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from jobboard.backends.rows import DueSchedules, NewJob, SchedulePage, ScheduleRow, ScheduleStep, Verdict
from jobboard.backends.text import shortened
from jobboard.backends.zookeeper.engine import Conflict, Sent, certain
from jobboard.backends.zookeeper.posting import Plan, Posting
from jobboard.backends.zookeeper.record import LONGEST_NOTE
from jobboard.backends.zookeeper.requests import Data, MultiRead
from jobboard.backends.zookeeper.timetable import Place, stored_schedule
from jobboard.backends.zookeeper.wire import pack
from jobboard.errors import BoardUnavailable

#: A step, and its place in the batch.
_Step = tuple[int, ScheduleStep]
_Planner = Callable[[Sequence[NewJob]], Plan]

_ROUNDS = 200
_READ_AT_ONCE = 100


class Scheduling(Posting):
    """The order of the schedules is in the listing, which the log keeps in step; their bodies are read."""

    def step_schedules(self, steps: Sequence[ScheduleStep]) -> list[Verdict]:
        self._begin()
        verdicts: dict[int, Verdict] = {}
        pending, plan = list(enumerate(steps)), self._likely_plan
        for _ in range(_ROUNDS):
            if not pending:
                return [verdicts[place] for place in range(len(steps))]
            first, later = _first_of_each(pending)
            try:
                conflicts = self._take_all(first, plan, verdicts)
            except BoardUnavailable as error:
                raise certain(error, began=Verdict.DONE in verdicts.values()) from error
            pending = conflicts + later
            if conflicts:
                plan = self._certain_plan
        raise BoardUnavailable("others change these schedules faster than this client can")

    def _take_all(self, steps: Sequence[_Step], plan: _Planner, verdicts: dict[int, Verdict]) -> list[_Step]:
        """Take steps of schedules that are all different; returns those for which somebody was faster.

        All are on their way before the first answer is here.
        """
        sent: list[tuple[_Step, Sent]] = []
        conflicts: list[_Step] = []
        try:
            deletions, found = self._read_counted([step.id for _, step in steps])
            for (place, step), stored in zip(steps, found, strict=True):
                version = None if stored is None else stored_schedule(stored.data)[0]
                if version == (None if step.row is None else step.row.version):
                    verdicts[place] = Verdict.REPEATED
                elif version != step.after:
                    verdicts[place] = Verdict.LOST
                else:
                    sent.append(((place, step), self._send(step, stored, deletions, plan)))
        except BoardUnavailable as error:
            raise certain(error, began=bool(sent)) from error
        for (place, step), transaction in sent:
            try:
                self._engine.settle(transaction)
                verdicts[place] = Verdict.DONE
            except Conflict:
                conflicts.append((place, step))
            except BoardUnavailable as error:
                raise certain(error, began=len(sent) > 1) from error
        return conflicts

    def _send(self, step: ScheduleStep, stored: Data | None, deletions: int, plan: _Planner) -> Sent:
        """Send a step.

        :param deletions: how many times something had been deleted when it was read; one that is removed and added
            again under the same id begins with the same version.
        """
        path = self._layout.schedule(step.id)
        writing = self._engine.begin()
        writing.check(self._layout.deleted, deletions)
        if step.row is None:
            writing.delete(path, -1 if stored is None else stored.stat.version)
            writing.set(self._layout.deleted, b"")
            writing.change.schedules.append((step.id, False, None))
        else:
            data = pack([step.row.version, step.row.next_at, step.row.body])
            if stored is None:
                self._engine.make_room([path])
                writing.create(path, data)
            else:
                writing.set(path, data, stored.stat.version)
            writing.change.schedules.append((step.id, True, step.row.next_at))
        if step.postings:
            self._add_postings(writing, plan(step.postings))
        for told in step.announcements:
            reason = shortened(told.reason, LONGEST_NOTE)
            writing.change.told.append((told.kind, told.uuid, told.name, told.who, None, reason))
        return self._engine.send(writing)

    def _read(self, ids: Sequence[str]) -> list[Data | None]:
        return self._read_counted(ids)[1]

    def _read_counted(self, ids: Sequence[str]) -> tuple[int, list[Data | None]]:
        """Return what is under these ids, and how many times something had been deleted before."""
        found: list[Data | None] = []
        deletions: list[int] = []
        for start in range(0, len(ids), _READ_AT_ONCE):
            request = MultiRead()
            request.get(self._line.chroot + self._layout.deleted)
            for id in ids[start : start + _READ_AT_ONCE]:
                request.get(self._line.chroot + self._layout.schedule(id))
            deleted, *part = self._line.read(request, is_fresh=start == 0)
            if deleted is None:
                raise BoardUnavailable(f"{self._layout.deleted} is missing; was the board deleted?")
            deletions.append(deleted.stat.version)
            found += part
        return min(deletions, default=0), found

    def read_schedules(self, ids: Sequence[str]) -> list[ScheduleRow | None]:
        self._begin()
        return [_entry(id, data) for id, data in zip(ids, self._read(ids), strict=True)]

    def due_schedules(self, limit: int) -> DueSchedules:
        self._begin()
        self._tracker.refresh()
        now = self._clock.now()
        with self._listing.lock:
            ids, next_at = self._listing.timetable.due(now, limit)
        # One that has been stepped on meanwhile is not due any more.
        rows = [row for row in self.read_schedules(ids) if row and (row.next_at or now) <= now] if ids else []
        return DueSchedules(rows, None if next_at is None else next_at - now, now)

    def page_schedules(self, cursor: object | None, size: int) -> SchedulePage:
        self._begin()
        self._tracker.refresh()
        with self._listing.lock:
            places = self._listing.timetable.page(cast(Place | None, cursor), size)
        rows = self.read_schedules([id for _, id in places])
        return SchedulePage([row for row in rows if row], places[-1] if len(places) == size else None)


def _first_of_each(pending: Sequence[_Step]) -> tuple[list[_Step], list[_Step]]:
    """Part the first step of each schedule from those that come after it."""
    first: dict[str, _Step] = {}
    later: list[_Step] = []
    for numbered in pending:
        if first.setdefault(numbered[1].id, numbered) is not numbered:
            later.append(numbered)
    return list(first.values()), later


def _entry(id: str, data: Data | None) -> ScheduleRow | None:
    if data is None:
        return None
    return ScheduleRow(id, *stored_schedule(data.data))
