"""What a schedule's next step is: which of its fire times are posted now, and which are not, and why.

Pure: the same schedule, progress and moment give the same plan in every scheduler. The store takes the first of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from jobboard.events import EventKind
from jobboard.schedules.progress import Progress
from jobboard.schedules.schedule import Schedule
from jobboard.schedules.triggers.instants import SECOND, instant_of
from jobboard.validation import check_delay, check_text, moment

#: How many overdue fire times of one schedule are posted one by one at most.
MAX_CAUGHT_UP = 1000

#: Of more overdue fire times than this, of which only one is posted, the rest is neither walked through nor counted.
MAX_COUNTED = 20

#: What waits for room looks for it this often, in seconds, should the event of a job's end get lost.
_ROOM_INTERVAL = 5.0

#: The step between two moments, in seconds: strictly later than this before ``start`` is ``start`` or later.
MICROSECOND = 1e-6


@dataclass(slots=True)
class Omitted:
    """Fire times that are not posted, and why; ``count`` of them, of which ``last`` is the last."""

    kind: EventKind
    last: float
    count: int
    reason: str


@dataclass(slots=True)
class Plan:
    """The fire times to post, what is omitted, and the progress that the schedule will have made."""

    progress: Progress
    fires: list[float] = field(default_factory=list)
    omitted: list[Omitted] = field(default_factory=list)

    def omit(self, kind: EventKind, times: list[float], reason: str) -> None:
        if times:
            self.omitted.append(Omitted(kind, times[-1], len(times), reason))


def first_fire_time(schedule: Schedule, after: float) -> float | None:
    """Return the schedule's first fire time later than ``after``, within its start and end."""
    if schedule.start is not None:
        after = max(after, schedule.start.timestamp() - MICROSECOND)
    found = schedule.trigger.next_fire_time(moment(after))
    if found is None or (schedule.end is not None and found > schedule.end):
        return None
    return found.timestamp()


def fire_times(schedule: Schedule, after: float) -> Iterator[float]:
    """Iterate over all of a schedule's fire times later than ``after``."""
    found = first_fire_time(schedule, after)
    while found is not None:
        yield found
        found = first_fire_time(schedule, found)


def due_at(schedule: Schedule, fire_time: float) -> float:
    """Return when a fire time is due: its jitter later."""
    if not schedule.jitter:
        return fire_time
    return fire_time + jitter_of(schedule.id, moment(fire_time), schedule.jitter).total_seconds()


def jitter_of(schedule_id: str, fire_time: datetime, jitter: float) -> timedelta:
    """Return by how much a fire time of a schedule is posted later: from 0 to less than ``jitter`` seconds.

    It is a hash of the schedule's id and the fire time: every scheduler computes the same one, again after a restart,
    while schedules that are due together spread evenly. The fire time itself, which names the job, does not move.

    :param fire_time: an aware datetime, before its jitter.
    :param jitter: seconds, 0 or more.
    """
    most = round(check_delay(jitter, "jitter") * SECOND)
    text = f"{check_text('schedule_id', schedule_id)}\0{instant_of('fire_time', fire_time)}"
    # 64 bits of a hash as a fraction of one, in whole numbers: no two machines may round it differently.
    fraction = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    return timedelta(microseconds=fraction * most >> 64)


def next_due(schedule: Schedule, progress: Progress, now: float) -> float | None:
    """Return when a scheduler must look at the schedule next; None for never."""
    if schedule.paused or progress.fault is not None or is_run_out(schedule, progress):
        return None
    moments = [] if progress.upcoming is None else [due_at(schedule, progress.upcoming)]
    if progress.buffered is not None:
        moments.append(now + _ROOM_INTERVAL)
    return min(moments, default=None)


def plan(schedule: Schedule, progress: Progress, now: float, most: int, until: float | None = None) -> Plan:
    """Decide about every fire time that is due.

    :param progress: with ``live`` as it is now.
    :param most: how many jobs one step can post at most; what is beyond stays due.
    :param until: decide only about those that were due by this moment; by default by now.
    """
    made = Plan(progress.copy())
    times = _overdue(schedule, made, now, most, now if until is None else until)
    times = _leave_out_late(schedule, made, times, now)
    times = _coalesce(schedule, made, times)
    _fill_room(schedule, made, times)
    made.progress.runs += len(made.fires)
    if is_run_out(schedule, made.progress):
        made.progress.upcoming = made.progress.buffered = None
    for omitted in made.omitted:
        if omitted.kind is EventKind.MISSED:
            made.progress.missed += omitted.count
        else:
            made.progress.skipped += omitted.count
    return made


def _overdue(schedule: Schedule, made: Plan, now: float, most: int, until: float) -> list[float]:
    """Return the fire times that were due by ``until``, and settle them; of too many only those that matter."""
    progress = made.progress
    if progress.upcoming is None or schedule.paused:
        return []
    if schedule.coalesce == "all":
        times, upcoming = _all_of(schedule, made, until)
        if progress.buffered is not None:
            # It may be posted as well. One of those that are due is looked at in any case, or else nothing would move.
            most = max(1, most - 1)
        if len(times) > most:
            times, upcoming = times[:most], times[most]
    else:
        times, upcoming = _ends_of(schedule, made, now, until)
    if times:
        progress.settled = times[-1]
    progress.upcoming = upcoming
    return times


def _all_of(schedule: Schedule, made: Plan, now: float) -> tuple[list[float], float | None]:
    """Return every fire time that is due; of too many the last ones, found from their end."""
    times, upcoming = _walk(schedule, made.progress.upcoming, now, MAX_CAUGHT_UP)
    if len(times) <= MAX_CAUGHT_UP:
        return times, upcoming
    first = times[0]
    certain = _last_fire_times(schedule, first, now - schedule.jitter, MAX_CAUGHT_UP + 1)
    later, upcoming = _walk(schedule, first_fire_time(schedule, max([first, *certain])), now, MAX_CAUGHT_UP)
    times = [first, *certain, *later]
    made.omit(
        EventKind.MISSED,
        times[-MAX_CAUGHT_UP - 1 : -MAX_CAUGHT_UP],
        f"not posted, nor those before it: of all that were overdue the last {MAX_CAUGHT_UP} are posted",
    )
    return times[-MAX_CAUGHT_UP:], upcoming


def _ends_of(schedule: Schedule, made: Plan, now: float, until: float) -> tuple[list[float], float | None]:
    """Return the fire times that are due; of many the first and the last, of which one will be posted."""
    times, upcoming = _walk(schedule, made.progress.upcoming, until, MAX_COUNTED)
    if len(times) <= MAX_COUNTED:
        return times, upcoming
    made.omit(
        EventKind.MISSED,
        times[1:-1],
        f"not posted: more than {MAX_COUNTED} were overdue, and those after the first {MAX_COUNTED} are not told",
    )
    first: float | None = times[0]
    if schedule.misfire_grace is not None:
        first = first_fire_time(schedule, now - schedule.misfire_grace - schedule.jitter - MICROSECOND)
    certain = until - schedule.jitter
    latest = _last_fire_time(schedule, times[0], certain) or times[0]
    rest, upcoming = _walk(schedule, first_fire_time(schedule, latest), until, MAX_CAUGHT_UP)
    head = [first] if first is not None and first < latest else []
    return [*head, latest, *rest], upcoming


def _last_fire_time(schedule: Schedule, after: float, until: float) -> float | None:
    """Return the last of the fire times from ``after`` to ``until``; found from its end, so years cost no more."""
    if schedule.end is not None:
        until = min(until, schedule.end.timestamp())
    found = schedule.trigger.latest_fire_time(moment(after), moment(until)) if until > after else None
    return None if found is None else found.timestamp()


def _last_fire_times(schedule: Schedule, after: float, until: float, most: int) -> list[float]:
    """Return the last ``most`` fire times from ``after`` to ``until``, in their order."""
    times: list[float] = []
    found = _last_fire_time(schedule, after, until)
    while found is not None and len(times) < most:
        times.append(found)
        found = _last_fire_time(schedule, after, found - MICROSECOND)
    return times[::-1]


def _walk(schedule: Schedule, fire_time: float | None, now: float, most: int) -> tuple[list[float], float | None]:
    """Return the fire times that are due, one more than ``most`` of them at most, and the one after them."""
    times: list[float] = []
    while fire_time is not None and len(times) <= most and due_at(schedule, fire_time) <= now:
        times.append(fire_time)
        fire_time = first_fire_time(schedule, fire_time)
    return times, fire_time


def _leave_out_late(schedule: Schedule, made: Plan, times: list[float], now: float) -> list[float]:
    grace = schedule.misfire_grace
    if grace is None:
        return times
    late = [time for time in times if now - due_at(schedule, time) > grace]
    made.omit(EventKind.MISSED, late, f"later than misfire_grace of {grace:g} s")
    return [time for time in times if time not in late] if late else times


def _coalesce(schedule: Schedule, made: Plan, times: list[float]) -> list[float]:
    if schedule.coalesce == "all" or len(times) < 2:
        return times
    chosen, rest = (times[-1], times[:-1]) if schedule.coalesce == "latest" else (times[0], times[1:])
    made.omit(EventKind.MISSED, rest, f"coalesced into {moment(chosen).isoformat()}")
    return [chosen]


def _fill_room(schedule: Schedule, made: Plan, times: list[float]) -> None:
    """Post as many as may be live, the one that has waited first."""
    progress = made.progress
    if progress.buffered is not None:
        times = [progress.buffered, *times]
        progress.buffered = None
    room = len(times)
    if schedule.max_instances is not None:
        room = min(room, max(0, schedule.max_instances - len(progress.live)))
    if schedule.max_runs is not None and room >= schedule.max_runs - progress.runs:
        # It is finished, and its later fire times are none of its own any more.
        made.fires = times[: max(0, schedule.max_runs - progress.runs)]
        return
    made.fires, rest = times[:room], times[room:]
    if rest and schedule.overlap == "buffer_one":
        progress.buffered = rest.pop(0)
    made.omit(EventKind.SKIPPED, rest, f"{schedule.max_instances} of its jobs are live already")


def is_run_out(schedule: Schedule, progress: Progress) -> bool:
    """Whether a schedule has posted as many fire times as it may."""
    return schedule.max_runs is not None and progress.runs >= schedule.max_runs
