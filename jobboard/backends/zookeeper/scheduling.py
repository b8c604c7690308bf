"""The schedules' primitives: each step is one transaction, with what it posts and tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from jobboard.backends.zookeeper.engine import Conflict, certain
from jobboard.backends.zookeeper.posting import Posting
from jobboard.backends.zookeeper.requests import Data, MultiRead
from jobboard.backends.zookeeper.timetable import Place
from jobboard.backends.zookeeper.wire import pack, unpack
from jobboard.entry import Due, ScheduleEntry, SchedulePage, ScheduleStep, Verdict
from jobboard.errors import BoardUnavailable

_ROUNDS = 200
_READ_AT_ONCE = 100


class Scheduling(Posting):
    """The order of the schedules is in the listing, which the log keeps in step; their bodies are read."""

    def step_schedules(self, steps: Sequence[ScheduleStep]) -> list[Verdict]:
        self._begin()
        verdicts: list[Verdict] = []
        for step in steps:
            try:
                verdicts.append(self._step(step))
            except BoardUnavailable as error:
                raise certain(error, began=Verdict.DONE in verdicts) from error
        return verdicts

    def _step(self, step: ScheduleStep) -> Verdict:
        for _ in range(_ROUNDS):
            stored = self._read([step.id])[0]
            version = None if stored is None else unpack(stored.data)[0]
            if version == (None if step.entry is None else step.entry.version):
                return Verdict.REPEATED
            if version != step.after:
                return Verdict.LOST
            try:
                self._take(step, stored)
            except Conflict:
                continue
            return Verdict.DONE
        raise BoardUnavailable("others change this schedule faster than this client can")

    def _take(self, step: ScheduleStep, stored: Data | None) -> None:
        path = self._layout.schedule(step.id)
        writing = self._engine.begin()
        if step.entry is None:
            writing.delete(path, -1 if stored is None else stored.stat.version)
            writing.change.schedules.append((step.id, False, None))
        else:
            data = pack([step.entry.version, step.entry.next_at, step.entry.body])
            if stored is None:
                self._engine.make_room([path])
                writing.create(path, data)
            else:
                writing.set(path, data, stored.stat.version)
            writing.change.schedules.append((step.id, True, step.entry.next_at))
        blobs = self._add_postings(writing, step.postings)
        for told in step.announcements:
            writing.change.told.append((told.kind, told.uuid, told.name, told.who, None, told.reason))
        try:
            self._engine.commit(writing)
        except Conflict:
            self._engine.discard(blobs)
            raise

    def _read(self, ids: Sequence[str]) -> list[Data | None]:
        found: list[Data | None] = []
        for start in range(0, len(ids), _READ_AT_ONCE):
            request = MultiRead()
            for id in ids[start : start + _READ_AT_ONCE]:
                request.get(self._line.chroot + self._layout.schedule(id))
            found += self._line.read(request, is_fresh=start == 0)
        return found

    def read_schedules(self, ids: Sequence[str]) -> list[ScheduleEntry | None]:
        self._begin()
        return [_entry(id, data) for id, data in zip(ids, self._read(ids), strict=True)]

    def due_schedules(self, limit: int) -> Due:
        self._begin()
        self._tracker.refresh()
        now = self._clock.now()
        with self._listing.lock:
            ids, next_at = self._listing.timetable.due(now, limit)
        # One that has been stepped on meanwhile is not due any more.
        entries = (
            [entry for entry in self.read_schedules(ids) if entry and (entry.next_at or now) <= now] if ids else []
        )
        return Due(entries, None if next_at is None else next_at - now, now)

    def page_schedules(self, cursor: object | None, size: int) -> SchedulePage:
        self._begin()
        self._tracker.refresh()
        with self._listing.lock:
            places = self._listing.timetable.page(cast(Place | None, cursor), size)
        entries = self.read_schedules([id for _, id in places])
        return SchedulePage([entry for entry in entries if entry], places[-1] if len(places) == size else None)


def _entry(id: str, data: Data | None) -> ScheduleEntry | None:
    if data is None:
        return None
    version, next_at, body = unpack(data.data)
    return ScheduleEntry(id, version, next_at, body)
