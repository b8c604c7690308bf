"""The steps of schedules: what the store is asked to change, and the jobs that it posts in the same moment."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from jobboard.backends.reasons import by_whom
from jobboard.backends.rows import IfExists, NewJob, Ties
from jobboard.backends.schedule_rows import ScheduleEvent, ScheduleRow, ScheduleStep
from jobboard.codec import MAX_ENCODED
from jobboard.errors import UnreadableSchedule
from jobboard.events import EventKind
from jobboard.payload import Payload, pack_payload
from jobboard.schedules.operators import NOBODY, Operator
from jobboard.schedules.planning import MICROSECOND, Plan, due_at, first_fire_time, is_run_out, next_due, plan
from jobboard.schedules.progress import FireRecord, Progress
from jobboard.schedules.schedule import Schedule, pack_schedule, unpack_schedule
from jobboard.schedules.triggers import At
from jobboard.states import JobPriority
from jobboard.validation import check_moment, moment, new_uuid

#: How many bytes of jobs one step posts at most, unless a single one has more.
_MAX_STEP_BYTES = 500_000


#: What the fire times depend on; after a change of these the progress starts anew.
_TIMES = ("trigger", "start", "end")


@dataclass(frozen=True, slots=True)
class Stored:
    """A schedule as it was read, and the version that its next step must find."""

    schedule: Schedule
    version: str

    @property
    def progress(self) -> Progress:
        assert self.schedule.progress is not None
        return self.schedule.progress


def readable_of(row: ScheduleRow) -> Schedule:
    """Return a stored schedule.

    :raises UnreadableSchedule: it can't be decoded.
    """
    try:
        schedule = unpack_schedule(row.id, row.body)
    except ValueError as error:
        raise UnreadableSchedule(f"schedule {row.id!r} can't be decoded: {error}") from None
    if row.next_at is None and schedule.state == "active" and schedule.progress is not None:
        # A client that could not decode it took it out of the order of what is due, and left its bytes alone.
        schedule.progress.fault = "a scheduler of another version could not decode it"
    return schedule


def check_next_run_time(schedule: Schedule, next_run_time: datetime) -> float:
    """Return a first fire time as seconds since the epoch; it must be within the schedule's start and end."""
    first = check_moment("next_run_time", next_run_time)
    if schedule.start is not None and next_run_time < schedule.start:
        raise ValueError(f"next_run_time {next_run_time} is before the start {schedule.start} of {schedule.id!r}")
    if schedule.end is not None and next_run_time > schedule.end:
        raise ValueError(f"next_run_time {next_run_time} is after the end {schedule.end} of {schedule.id!r}")
    return first


def first_progress(schedule: Schedule, now: float, next_run_time: float | None = None) -> Progress:
    """Return the progress of a new schedule.

    :param next_run_time: its first fire time, whatever its trigger says; also a past one.
    """
    progress = Progress(now)
    _start_new(schedule, progress, now, next_run_time)
    if progress.upcoming is None:
        raise ValueError(f"schedule {schedule.id!r} would never fire: its trigger has no time after {moment(now)}")
    return progress


def _start_new(schedule: Schedule, progress: Progress, now: float, next_run_time: float | None = None) -> None:
    """Let the times of a new schedule or trigger begin; the moment of an ``At`` is one of them, also if it has passed.

    It is not if something later is decided: the same moment would be posted twice by programs that replace each
    other's schedules.
    """
    decided = progress.settled if progress.runs or progress.missed or progress.skipped else -math.inf
    start_at(schedule, progress, now)
    if next_run_time is not None:
        progress.settled, progress.upcoming = min(progress.settled, next_run_time - MICROSECOND), next_run_time
    elif progress.upcoming is None and isinstance(schedule.trigger, At):
        before = schedule.trigger.moment.timestamp() - MICROSECOND
        if before >= decided:
            progress.settled, progress.upcoming = before, first_fire_time(schedule, before)


def start_at(schedule: Schedule, progress: Progress, now: float) -> None:
    """Let the first fire time after this moment be the next; what is settled stays so, if a clock was set back."""
    progress.settled = max(now, progress.settled)
    progress.upcoming = first_fire_time(schedule, progress.settled)


def begin_pause(progress: Progress, now: float) -> None:
    """Keep the moment of a pause: what is upcoming, and was due by then, is decided about when the pause ends."""
    progress.settled = max(now, progress.settled)


def has_other_times(old: Schedule, new: Schedule) -> bool:
    """Whether a schedule that takes the place of another has a trigger, a start or an end of its own."""
    return any(getattr(old, what) != getattr(new, what) for what in _TIMES)


def kept_progress(old: Schedule, new: Schedule, now: float, next_run_time: float | None = None) -> Progress:
    """Return the progress of a schedule that takes the place of another.

    :param next_run_time: its next fire time if its times are other ones.
    """
    assert old.progress is not None
    progress = old.progress.copy()
    times_differ = has_other_times(old, new)
    if times_differ or _starts_anew(old, new, progress):
        if old.trigger != new.trigger or (times_differ and next_run_time is not None):
            _start_new(new, progress, now, next_run_time)
        else:
            start_at(new, progress, now)
        progress.buffered = None
    progress.fault = None
    if not new.paused:
        progress.note = None
    elif not old.paused:
        begin_pause(progress, now)
    if new.max_runs is not None and progress.runs >= new.max_runs:
        progress.upcoming = progress.buffered = None
    return progress


def is_put_off_by_start(old: Schedule, new: Schedule, progress: Progress) -> bool:
    """Whether a replacement's next fire time is later only because its trigger begins at another moment."""
    assert old.progress is not None
    before, after = old.progress.upcoming, progress.upcoming
    if before is None or after is None or after <= before or old.trigger == new.trigger:
        return False
    return bool(_without_starts(old.trigger.to_plain()) == _without_starts(new.trigger.to_plain()))


def _without_starts(plain: Any) -> Any:
    if isinstance(plain, dict):
        return {key: _without_starts(value) for key, value in plain.items() if key != "start"}
    return [_without_starts(item) for item in plain] if isinstance(plain, list) else plain


def _starts_anew(old: Schedule, new: Schedule, progress: Progress) -> bool:
    return (
        (old.paused and not new.paused)
        or (old.max_runs != new.max_runs and progress.upcoming is None)
        or progress.fault is not None
    )


def posting_of(schedule: Schedule, fire_time: float) -> NewJob:
    """Return the job of a fire time: schedule and fire time are its key, so that it can't be live twice."""
    return NewJob(
        uuid=new_uuid(),
        name=schedule.job,
        priority=int(JobPriority.convert(schedule.priority)),
        body=_body_of(schedule, fire_time),
        key=key_of(schedule.id, fire_time),
        if_exists=IfExists.KEEP,
        max_attempts=schedule.max_attempts,
        ties=None if schedule.lane is None else Ties(schedule.lane),
    )


def _body_of(schedule: Schedule, fire_time: float) -> bytes:
    # What is stored was within the limits of the board that added it, which may have other options than this one.
    payload = Payload(schedule.details or {}, schedule_id=schedule.id, fire_time=fire_time)
    return pack_payload(payload, largest=MAX_ENCODED)[0]


def most_postings(schedule: Schedule, most: int) -> int:
    """Return how many jobs of a schedule one step may post, at most ``most``: large details make it fewer."""
    if not schedule.details:
        return most
    return max(1, min(most, _MAX_STEP_BYTES // len(_body_of(schedule, 0.0))))


def key_of(schedule_id: str, fire_time: float) -> str:
    """Return the key of the job that a schedule posts for a fire time."""
    return f"{schedule_id}@{_written(_moment(fire_time))}"


def step_of(stored: Stored, plan: Plan, now: float) -> ScheduleStep:
    """Return the step that a plan makes: posting, history, events, and the schedule moved on."""
    postings = [posting_of(stored.schedule, fire_time) for fire_time in plan.fires]
    records = [
        FireRecord(omitted.kind, _moment(now), _moment(omitted.last), reason=omitted.reason, count=omitted.count)
        for omitted in plan.omitted
    ]
    records += [
        FireRecord(EventKind.FIRED, _moment(now), _moment(fire_time), posting.uuid)
        for fire_time, posting in zip(plan.fires, postings, strict=True)
    ]
    return step_with(stored, _counting(stored.schedule, plan.progress, postings), postings, records, now)


def step_by_hand(
    stored: Stored, progress: Progress, posting: NewJob, fire_time: float, now: float, operator: Operator
) -> ScheduleStep:
    """Return the step of somebody who fires a schedule by hand; the job counts as one of its instances."""
    reason = operator.told("by hand")
    record = FireRecord(EventKind.FIRED, _moment(now), _moment(fire_time), posting.uuid, reason)
    return step_with(stored, _counting(stored.schedule, progress, [posting]), [posting], [record], now)


def step_of_backfill(
    stored: Stored,
    progress: Progress,
    postings: Sequence[NewJob],
    last: float,
    count: int,
    now: float,
    operator: Operator,
) -> ScheduleStep:
    """Return a step of a backfill: its jobs are no instances, or they would keep the schedule from firing.

    :param last: the last fire time of the backfill.
    :param count: how many fire times the line of history stands for,
        of which there is one for the whole backfill; 0 for none.
    """
    record = FireRecord(EventKind.FIRED, _moment(now), _moment(last), reason=operator.told("backfill"), count=count)
    return step_with(stored, progress, postings, [record] if count else [], now)


def _counting(schedule: Schedule, progress: Progress, postings: Sequence[NewJob]) -> Progress:
    """Count jobs as instances of their schedule, if it has a limit on them."""
    if schedule.max_instances is not None:
        progress.live += [posting.uuid for posting in postings]
    return progress


def step_with(
    stored: Stored, progress: Progress, postings: Sequence[NewJob], records: Sequence[FireRecord], now: float
) -> ScheduleStep:
    """Return a step to ``progress``, which takes down the records."""
    schedule = stored.schedule
    for record in records:
        progress.note_down(record)
    row = _row_of(schedule, progress, now)
    events = tuple(_event_of(schedule, record) for record in records)
    return ScheduleStep(schedule.id, stored.version, row, tuple(postings), events)


def change_of(
    schedule: Schedule, after: str | None, progress: Progress, now: float, what: str, operator: Operator = NOBODY
) -> ScheduleStep:
    """Return the step of somebody who adds or changes a schedule; schedulers that wait learn of it.

    :param what: what was done to it, in a word.
    """
    operator.note_down(progress, what, now)
    told = _change_told(schedule, operator.told(what))
    return ScheduleStep(schedule.id, after, _row_of(schedule, progress, now), (), (told,))


def step_of_resume(
    stored: Stored, schedule: Schedule, progress: Progress, now: float, most: int, what: str, operator: Operator
) -> ScheduleStep:
    """Return the step that ends a schedule's pause.

    What was due before the pause is decided about as any overdue fire time is; what fell into the pause is left out.
    If that is more jobs than one step can post, the schedule is still paused after the step, and the next one goes on.

    :param schedule: as it is to be, not paused.
    :param progress: with ``live`` as it is now.
    """
    paused_at = progress.settled
    # What was set aside may not be able to tell its fire times.
    made = plan(schedule, progress, now, most, paused_at) if progress.fault is None else Plan(progress.copy())
    after = made.progress
    if after.fault is None and after.upcoming is not None and due_at(schedule, after.upcoming) <= paused_at:
        after.settled = paused_at
        return step_of(Stored(replace(schedule, paused=True), stored.version), made, now)
    after.note = after.fault = None
    if not is_run_out(schedule, after):
        start_at(schedule, after, now)
    operator.note_down(after, what, now)
    step = step_of(Stored(schedule, stored.version), made, now)
    return replace(step, events=(_change_told(schedule, operator.told(what)), *step.events))


def _change_told(schedule: Schedule, reason: str) -> ScheduleEvent:
    return ScheduleEvent(EventKind.SCHEDULED, None, schedule.job, schedule.id, reason)


def removal_of(row: ScheduleRow, operator: Operator = NOBODY) -> ScheduleStep:
    """Return the step that deletes a schedule."""
    event = ScheduleEvent(EventKind.UNSCHEDULED, None, None, row.id, by_whom(operator.by, operator.reason))
    return ScheduleStep(row.id, row.version, None, (), (event,))


def quarantine(stored: Stored, fault: str, now: float) -> ScheduleStep:
    """Return the step that takes a schedule out of the order of what is due, and says why."""
    progress = stored.progress.copy()
    progress.fault = fault
    progress.failed += 1
    return step_with(stored, progress, (), [FireRecord(EventKind.FAILED, moment(now), None, reason=fault)], now)


def quarantine_unreadable(row: ScheduleRow, fault: str) -> ScheduleStep:
    """Return the step that does so with a schedule that can't be decoded, and keeps its bytes."""
    event = ScheduleEvent(EventKind.FAILED, None, None, row.id, fault)
    quarantined = replace(row, version=_new_version(), next_at=None)
    return ScheduleStep(row.id, row.version, quarantined, (), (event,))


def _row_of(schedule: Schedule, progress: Progress, now: float) -> ScheduleRow:
    """Return what is stored, under a version of its own, made before the first try."""
    return ScheduleRow(
        schedule.id, _new_version(), next_due(schedule, progress, now), pack_schedule(schedule, progress)
    )


def _new_version() -> str:
    return os.urandom(16).hex()


def _event_of(schedule: Schedule, record: FireRecord) -> ScheduleEvent:
    when = "" if record.fire_time is None else _written(record.fire_time)
    if record.count > 1:
        when = f"{record.count} fire times up to {when}"
    reason = ": ".join(part for part in (when, record.reason) if part)
    return ScheduleEvent(record.kind, record.uuid, schedule.job, schedule.id, reason)


@lru_cache(maxsize=1000)
def _moment(seconds: float) -> datetime:
    """Many schedules are due at the same moment, and stepped on at the same one."""
    return moment(seconds)


@lru_cache(maxsize=1000)
def _written(time: datetime) -> str:
    return time.isoformat()
