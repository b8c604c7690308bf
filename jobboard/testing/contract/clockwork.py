"""Functions for the cases of schedules: they make schedules overdue, so that no case waits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from jobboard.backends.rows import Verdict
from jobboard.backends.schedule_rows import ScheduleEvent, ScheduleRow, ScheduleStep
from jobboard.board import JobBoard, client_of
from jobboard.events import EventKind, JobEvent
from jobboard.job import Job
from jobboard.schedules.firing import Firing
from jobboard.schedules.planning import fire_times, next_due
from jobboard.schedules.schedule import Schedule, pack_schedule, unpack_schedule
from jobboard.schedules.triggers import Every, Trigger
from jobboard.validation import moment

HOUR = 3600.0
#: Due half an hour after the tests begin, so that no fire time comes while a case runs.
HOURLY = Every(hours=1, start=datetime.now(UTC).replace(microsecond=0) - timedelta(days=2000, minutes=30))
FULL_HOURS = Every(hours=1, start=datetime(2020, 1, 1, tzinfo=UTC))


def hourly(id: str = "report", **options: Any) -> Schedule:
    """Return a schedule that fires every hour."""
    trigger: Trigger = options.pop("trigger", HOURLY)
    return Schedule(id, trigger, options.pop("job", "write"), options.pop("details", {"id": id}), **options)


def rewind(board: JobBoard, id: str, seconds: float) -> list[datetime]:
    """Set a schedule back, as if no scheduler had looked at it for ``seconds``; return its overdue fire times."""
    backend = board._backend
    row = backend.schedules.read([id])[0]
    assert row is not None
    schedule, now = unpack_schedule(row.id, row.body), backend.now()
    progress = schedule.progress
    assert progress is not None
    progress.settled = now - seconds
    overdue = list(fire_times_until(schedule, progress.settled, now))
    progress.upcoming = next(iter(fire_times(schedule, progress.settled)), None)
    at = next_due(schedule, progress, now)
    written = ScheduleRow(id, f"rewound by {seconds} from {row.version}", at, pack_schedule(schedule, progress))
    told = ScheduleEvent(EventKind.SCHEDULED, None, schedule.job, id, "rewound")
    assert backend.schedules.step([ScheduleStep(id, row.version, written, (), (told,))]) == [Verdict.DONE]
    return [moment(time) for time in overdue]


def fire_times_until(schedule: Schedule, after: float, until: float) -> Iterable[float]:
    for time in fire_times(schedule, after):
        if time > until:
            return
        yield time


def overdue(board: JobBoard, schedule: Schedule, hours: float = 3.0) -> list[datetime]:
    """Add a schedule that no scheduler seems to have looked at for ``hours``; return its overdue fire times."""
    board.schedules.add(schedule)
    times = rewind(board, schedule.id, hours * HOUR)
    assert times
    return times


def firing(board: JobBoard) -> Firing:
    """Return what a scheduler fires with."""
    return Firing(client_of(board))


def fire(board: JobBoard) -> int:
    """Post all that is due; return the number of jobs."""
    posted = 0
    while True:
        made = firing(board).fire_due(100)
        posted += made.posted
        if made.next_in is None or made.next_in > 0:
            return posted


def fires_of(jobs: Iterable[Job]) -> list[datetime | None]:
    return [job.fire_time for job in jobs]


def kinds_of(board: JobBoard, id: str = "report") -> list[tuple[EventKind, int]]:
    """Return the schedule's history as kinds and counts."""
    return [(line.kind, line.count) for line in board.schedules.history(id)]


def told(events: Iterable[JobEvent]) -> list[EventKind]:
    return [event.kind for event in events]


def spoil(board: JobBoard, id: str, body: bytes = b"\xc1 garbage") -> ScheduleRow:
    """Overwrite a schedule with these bytes, due now; return its row from before."""
    row = stored(board, id)
    overwrite(board, replace(row, next_at=board._backend.now() - 1, body=body))
    return row


def stored(board: JobBoard, id: str) -> ScheduleRow:
    row = board._backend.schedules.read([id])[0]
    assert row is not None
    return row


def overwrite(board: JobBoard, row: ScheduleRow) -> None:
    """Replace the stored row by this one, under a new version."""
    before = stored(board, row.id).version
    step = ScheduleStep(row.id, before, replace(row, version=f"written over {before}"))
    assert board._backend.schedules.step([step]) == [Verdict.DONE]


def in_an_hour() -> datetime:
    return datetime.now(UTC) + timedelta(hours=1)
