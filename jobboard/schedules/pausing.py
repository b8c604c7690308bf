"""The pause of all schedulers of a board.

It is a row among the schedules that is due before all others, so a scheduler that looks for what is due finds it in the
same request. Its format number is one that no schedule has: versions that don't know it leave the row alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgpack

from jobboard.backends.base import PAUSE_ID
from jobboard.backends.schedule_rows import ScheduleEvent, ScheduleRow, ScheduleStep
from jobboard.codec import decode
from jobboard.events import EventKind
from jobboard.schedules.operators import Operator
from jobboard.validation import moment

_FORMAT = 127
#: A moment before every fire time.
_FIRST = 1.0


@dataclass(frozen=True, slots=True)
class SchedulersPaused:
    """Since when no scheduler of a board posts anything, and why; the note also says by whom, if somebody was named."""

    since: datetime
    note: str | None


def pause_in(rows: Sequence[ScheduleRow | None]) -> ScheduleRow | None:
    """Return the pause if it is among these rows."""
    return next((row for row in rows if row is not None and row.id == PAUSE_ID), None)


def step_to_pause(before: ScheduleRow | None, operator: Operator, now: float) -> ScheduleStep:
    """Return the step that pauses all schedulers."""
    body = bytes(msgpack.packb([_FORMAT, now, operator.note_of_pause_of_all()]))
    row = ScheduleRow(PAUSE_ID, os.urandom(16).hex(), _FIRST, body)
    return _step(before, row, operator.told("all paused"))


def step_to_resume(before: ScheduleRow, operator: Operator) -> ScheduleStep:
    """Return the step that ends the pause; schedulers that sleep learn of it."""
    return _step(before, None, operator.told("all resumed"))


def _step(before: ScheduleRow | None, row: ScheduleRow | None, reason: str) -> ScheduleStep:
    event = ScheduleEvent(EventKind.SCHEDULED, None, None, PAUSE_ID, reason)
    return ScheduleStep(PAUSE_ID, None if before is None else before.version, row, (), (event,))


def unpack_pause(row: ScheduleRow) -> SchedulersPaused:
    """Return what the row says; one that can't be decoded is a pause, too."""
    try:
        _, since, note = decode(row.body)
        return SchedulersPaused(moment(float(since)), note if isinstance(note, str) else None)
    except (ValueError, TypeError):
        return SchedulersPaused(moment(_FIRST), "(its record can't be read)")
