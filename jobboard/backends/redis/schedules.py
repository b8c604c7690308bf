"""Schedules on Redis: each method is one script, and a step posts by the same fragment as ``post``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from jobboard.backends.redis.client import RedisClient
from jobboard.backends.redis.codec import is_text, pack, posting_parts
from jobboard.backends.redis.ends import VERDICTS
from jobboard.backends.redis.moments import micros
from jobboard.backends.roles import ScheduleStore
from jobboard.backends.rows import Verdict
from jobboard.backends.schedule_rows import DueSchedules, SchedulePage, ScheduleRow, ScheduleStep

#: Where a page ended: the last schedule's moment as the sorted set has it, and its id.
Cursor = tuple[bytes, bytes]


class Schedules(ScheduleStore):
    """The schedules of one board."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    def step(self, steps: Sequence[ScheduleStep]) -> list[Verdict]:
        if not steps:
            return []
        blobs: list[bytes] = []
        for step in steps:
            blobs.append(b"" if step.row is None else step.row.body)
            blobs += [new.body for new in step.postings]
        # While memory is full, only steps that post are refused.
        script = "step_schedules" if any(step.postings for step in steps) else "change_schedules"
        answers = self._client.change(script, pack([_step_parts(step) for step in steps]), *blobs)[1]
        return [VERDICTS[answer] for answer in answers]

    def read(self, ids: Sequence[str]) -> list[ScheduleRow | None]:
        if not ids:
            return []
        return _rows_of(self._client.read("read_schedules", *ids)[1])

    def due(self, limit: int) -> DueSchedules:
        _, now, following, parts = self._client.read("due_schedules", str(limit))
        rows = [row for row in _rows_of(parts) if row is not None]
        next_in = (float(following) - int(now)) / 1e6 if following else None
        return DueSchedules(rows, next_in, int(now) / 1e6)

    def page(self, cursor: object | None, size: int) -> SchedulePage:
        _, moment, id, parts = self._client.read("page_schedules", *cast(Cursor, cursor or (b"", b"")), str(size))
        rows = [row for row in _rows_of(parts) if row is not None]
        return SchedulePage(rows, (moment, id) if moment else None)


def _step_parts(step: ScheduleStep) -> list[Any]:
    row = step.row
    return [
        step.id,
        step.after,
        None if row is None else row.version,
        None if row is None or row.next_at is None else micros(row.next_at),
        [posting_parts(new) for new in step.postings],
        [[event.kind.value, event.uuid, event.name, event.who, event.reason] for event in step.events],
    ]


def _rows_of(parts: Sequence[Any]) -> list[ScheduleRow | None]:
    """Return the schedules; None for a missing one, and for an id that is no text, which an audit finds."""
    return [
        None
        if version is None or not is_text(id)
        else ScheduleRow(id.decode(), version.decode(), None if at is None else int(at) / 1e6, body)
        for id, version, at, body in zip(*[iter(parts)] * 4, strict=True)
    ]
