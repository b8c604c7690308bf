"""Schedules: each is on the shard of its id, and so are the jobs that it posts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from jobboard.backends.base import PAUSE_ID, Backend
from jobboard.backends.roles import ScheduleStore
from jobboard.backends.rows import Verdict
from jobboard.backends.schedule_rows import DueSchedules, SchedulePage, ScheduleRow, ScheduleStep
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.health import MAX_PAUSE
from jobboard.backends.shards.merging import merged_page
from jobboard.backends.shards.placement import text_of_schedule
from jobboard.errors import BoardUnavailable


class Schedules(ScheduleStore):
    """A step and what it posts are one step of a shard."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def _numbers(self, ids: Sequence[str]) -> list[int]:
        map = self._fleet.roster.fresh()
        return [map.now.place(text_of_schedule(id)) for id in ids]

    def step(self, steps: Sequence[ScheduleStep]) -> list[Verdict]:
        roster = self._fleet.roster
        numbers = roster.places([text_of_schedule(step.id) for step in steps])
        with roster.limit():
            verdicts = self._fleet.split(numbers, steps, lambda shard, some: shard.schedules.step(some), changes=True)
        for step, number in zip(steps, numbers, strict=True):
            for new in step.postings:
                self._fleet.remember(new.uuid, number)
        return verdicts

    def read(self, ids: Sequence[str]) -> list[ScheduleRow | None]:
        return self._fleet.split(self._numbers(ids), ids, lambda shard, some: shard.schedules.read(some))

    def due(self, limit: int) -> DueSchedules:
        """Return those of the shards that answer; the others are asked again before long.

        :raises BoardUnavailable: nobody knows whether all schedulers are paused, since that shard does not answer.
        """
        (first,) = self._numbers([PAUSE_ID])
        parts = [self._due_on(first, limit)]
        for number in self._fleet.health.able():
            if number != first:
                with suppress(BoardUnavailable):
                    parts.append(self._due_on(number, limit))
        rows = sorted((row for part in parts for row in part.rows), key=_due_order)
        nexts = [part.next_in for part in parts if part.next_in is not None]
        if len(parts) < len(self._fleet.present):
            nexts.append(MAX_PAUSE)
        next_in = 0.0 if len(rows) > limit else min(nexts, default=None)
        # What a shard judged as due is so at the moment of the clock that is ahead of the others.
        return DueSchedules(rows[:limit], next_in, max(part.now for part in parts))

    def _due_on(self, number: int, limit: int) -> DueSchedules:
        """Return what is due on a shard, without what was moved from there and is about to be deleted."""
        found = self._fleet.ask(number, lambda shard: shard.schedules.due(limit))
        return replace(found, rows=self._placed_on(number, found.rows))

    def _placed_on(self, number: int, rows: Sequence[ScheduleRow]) -> list[ScheduleRow]:
        """Return those that belong on the shard that has them; the others were moved from there."""
        numbers = self._numbers([row.id for row in rows])
        return [row for row, place in zip(rows, numbers, strict=True) if place == number]

    def page(self, cursor: object | None, size: int) -> SchedulePage:
        def part(shard: Backend, inner: Any, most: int) -> tuple[list[ScheduleRow], Any]:
            page = shard.schedules.page(inner, most)
            return self._placed_on(self._fleet.shards.index(shard), page.rows), page.cursor

        return SchedulePage(*merged_page(self._fleet, cursor, size, part, _due_order))


def _due_order(row: ScheduleRow) -> tuple[float, str]:
    return math.inf if row.next_at is None else row.next_at, row.id
