"""Limits, and what there is to know of lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from jobboard.backends.lane_rows import LaneDetail, LanePage, LaneRow, LimitRow
from jobboard.backends.lanes import starts_in
from jobboard.backends.limit_store import LimitStore
from jobboard.backends.limits import Rules
from jobboard.backends.memory.client import MemoryClient
from jobboard.backends.memory.lanes import Lane
from jobboard.backends.memory.stored_job import sequence_of
from jobboard.backends.rows import Verdict
from jobboard.events import EventKind, JobEvent
from jobboard.limit import is_lane_of
from jobboard.validation import moment


class Limits(LimitStore):
    """All under the store's lock."""

    def __init__(self, client: MemoryClient) -> None:
        self._store, self._lock, self._begin = client.store, client.lock, client.begin

    def all(self) -> list[LimitRow]:
        with self._lock:
            self._begin()
            return list(self._store.lanes.limits.values())

    def put(self, row: LimitRow, after: str | None) -> Verdict:
        with self._lock:
            now = self._begin()
            stored = self._store.lanes.limits.get(row.key)
            verdict = row.verdict(None if stored is None else stored.version, after)
            if verdict is Verdict.DONE:
                self._write(row)
                limit = row.limit
                at = moment(now)
                self._store.tell(JobEvent(EventKind.LIMITED, None, limit.name, limit.by, None, at, str(limit)))
                self._store.notify(limit.name, 0.0)
            return verdict

    def _write(self, row: LimitRow) -> None:
        lanes = self._store.lanes
        if row.limit.is_empty and not row.is_pending:
            lanes.limits.pop(row.key, None)
        else:
            lanes.limits[row.key] = row
        lanes.rules = Rules(lanes.limits.values())

    def finish(self, row: LimitRow) -> None:
        with self._lock:
            self._begin()
            stored = self._store.lanes.limits.get(row.key)
            if stored is not None and stored.version == row.version:
                self._write(replace(stored, is_pending=False))

    def look(self, lanes: Sequence[str]) -> list[str]:
        with self._lock:
            now = self._begin()
            return [lane for lane in lanes if self._store.lanes.look(lane, now)]

    def lanes(self, pattern: str, cursor: object | None, size: int) -> LanePage:
        with self._lock:
            self._begin()
            lanes = self._store.lanes.by_name
            found = sorted(
                lane for lane in lanes if is_lane_of(lane, pattern) and (cursor is None or lane > str(cursor))
            )
            return LanePage(found[:size], found[size - 1] if len(found) > size else None)

    def longest(self, count: int) -> list[LaneRow]:
        with self._lock:
            self._begin()
            rows = [lane.row(name, self._store.by_sequence) for name, lane in self._store.lanes.by_name.items()]
            return sorted(filter(_has_jobs, rows), key=lambda row: (-row.blocked, row.lane))[:count]

    def lane(self, lane: str, count: int) -> LaneDetail:
        with self._lock:
            now = self._begin()
            store, found = self._store, self._store.lanes.by_name.get(lane, Lane())
            sequences = [
                *sorted(found.claimed),
                *map(sequence_of, islice(found.claimable, count)),
                *sorted(found.retrying),
            ]
            rows = [store.by_sequence[sequence].copy() for sequence in sequences[:count]]
            limit = store.lanes.rules.of_lane(lane)
            next_in = None
            if limit.rate is not None:
                next_in = starts_in(found.next_at, limit.rate, now)
            return LaneDetail(found.row(lane, store.by_sequence), rows, next_in)


def _has_jobs(row: LaneRow) -> bool:
    return row.claimed + row.claimable + row.retrying + row.blocked > 0
