"""Puts the jobs of an APScheduler 3 onto a board, and says of each what it became or why not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from jobboard.apscheduler.pickles import MAX_BYTES
from jobboard.apscheduler.reading import Found, read_job
from jobboard.apscheduler.stores import Stored
from jobboard.errors import AlreadyScheduled, UnreadableSchedule
from jobboard.operate.explaining import explain, zone_of
from jobboard.schedules.collection import Schedules
from jobboard.schedules.planning import first_fire_time
from jobboard.validation import moment


def found_jobs(stored: Iterable[Stored], names: Mapping[str, str], now: float) -> Iterator[Found]:
    """Iterate over what becomes of each job of a store; see :func:`read_job`."""
    for id, state in stored:
        if state is None:
            yield Found(id, reason=f"its state is more than {MAX_BYTES} bytes")
        else:
            yield read_job(id, state, names, now)


def preview(found: Found, now: float) -> dict[str, Any]:
    """Return what an import would do with a job, without a board."""
    schedule = found.schedule
    if schedule is None:
        return _view(found, "refused", found.reason)
    first = found.next_run_time
    if first is None and not schedule.paused:
        seconds = first_fire_time(schedule, now)
        if seconds is None:
            return _view(found, "refused", "it would never fire")
        first = moment(seconds)
    return _view(found, "importable", None) | {"next_fire_time": first}


def import_job(schedules: Schedules, found: Found, if_exists: Literal["raise", "keep", "replace"]) -> dict[str, Any]:
    """Add the schedule that a job becomes, and return what was done.

    With ``"keep"`` a repeated import changes nothing. A job that the board refuses stops no other.
    """
    schedule = found.schedule
    if schedule is None:
        return _view(found, "refused", found.reason)
    try:
        outcome = "imported"
        try:
            added = schedules.add(schedule, next_run_time=found.next_run_time)
        except AlreadyScheduled:
            if if_exists == "raise":
                raise
            outcome = "kept" if if_exists == "keep" else "replaced"
            added = schedules.add(schedule, if_exists, next_run_time=found.next_run_time)
    except (AlreadyScheduled, UnreadableSchedule, ValueError, TypeError) as error:
        return _view(found, "refused", str(error))
    return _view(found, outcome, None) | {"next_fire_time": added.next_fire_time}


def _view(found: Found, outcome: str, reason: str | None) -> dict[str, Any]:
    schedule = found.schedule
    return {
        "id": found.id,
        "outcome": outcome,
        "function": found.function,
        "job": schedule and schedule.job,
        "when": schedule and explain(schedule.trigger),
        "zone": schedule and zone_of(schedule.trigger),
        "next_fire_time": None,
        "paused": None if schedule is None else schedule.paused,
        "reason": reason,
        "notes": found.notes,
    }
