"""The schedules' primitives: each a script, which posts by the same fragment as ``post``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from jobboard.backends.redis.client import Client
from jobboard.backends.redis.posting import item_of
from jobboard.backends.redis.wire import is_text, micros, pack
from jobboard.backends.rows import DueSchedules, SchedulePage, ScheduleRow, ScheduleStep, Verdict

_VERDICTS = {verdict.name.encode(): verdict for verdict in Verdict}

#: Where a page ended: the last schedule's moment as the sorted set has it, and its id.
Place = tuple[bytes, bytes]


class Scheduling(Client):
    """Steps of schedules, and what is due."""

    def step_schedules(self, steps: Sequence[ScheduleStep]) -> list[Verdict]:
        if not steps:
            return []
        blobs: list[bytes] = []
        for step in steps:
            blobs.append(b"" if step.row is None else step.row.body)
            blobs += [new.body for new in step.postings]
        # Only what posts is refused while memory is full.
        script = "step_schedules" if any(step.postings for step in steps) else "change_schedules"
        answers = self._change(script, pack([_plain(step) for step in steps]), *blobs)[1]
        return [_VERDICTS[answer] for answer in answers]

    def read_schedules(self, ids: Sequence[str]) -> list[ScheduleRow | None]:
        if not ids:
            return []
        return _schedules_of(self._look("read_schedules", *ids)[1])

    def due_schedules(self, limit: int) -> DueSchedules:
        _, now, following, parts = self._look("due_schedules", limit)
        rows = [row for row in _schedules_of(parts) if row is not None]
        next_in = (float(following) - int(now)) / 1e6 if following else None
        return DueSchedules(rows, next_in, int(now) / 1e6)

    def page_schedules(self, cursor: object | None, size: int) -> SchedulePage:
        _, moment, id, parts = self._look("page_schedules", *cast(Place, cursor or (b"", b"")), size)
        rows = [row for row in _schedules_of(parts) if row is not None]
        return SchedulePage(rows, (moment, id) if moment else None)


def _plain(step: ScheduleStep) -> list[Any]:
    row = step.row
    return [
        step.id,
        step.after,
        None if row is None else row.version,
        None if row is None or row.next_at is None else micros(row.next_at),
        [item_of(new) for new in step.postings],
        [[told.kind.value, told.uuid, told.name, told.who, told.reason] for told in step.announcements],
    ]


def _schedules_of(parts: Sequence[Any]) -> list[ScheduleRow | None]:
    """Return what there is; an id that is no text is nobody's, and an audit finds it."""
    return [
        None
        if version is None or not is_text(id)
        else ScheduleRow(id.decode(), version.decode(), None if at is None else int(at) / 1e6, body)
        for id, version, at, body in zip(*[iter(parts)] * 4, strict=True)
    ]
