"""Puts the jobs of an APScheduler 3 onto a board, and says of each what it became or why not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from jobboard.apscheduler.pickles import MAX_BYTES
from jobboard.apscheduler.reading import Found, read_job
from jobboard.apscheduler.stores import Stored
from jobboard.errors import AlreadyScheduled, BoardUnavailable, JobBoardError, RequestRefused
from jobboard.operate.explaining import explain, zone_of
from jobboard.schedules.collection import Schedules
from jobboard.schedules.transitions import check_next_run_time, first_progress
from jobboard.validation import moment

#: What is wrong with one job, and stops no other.
_FAULTS = (JobBoardError, ValueError, TypeError, ArithmeticError, LookupError)


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
    try:
        first = None if found.next_run_time is None else check_next_run_time(schedule, found.next_run_time)
        upcoming = first_progress(schedule, now, first).upcoming
    except _FAULTS as error:
        return _view(found, "refused", str(error))
    next_fire_time = None if upcoming is None or schedule.paused else moment(upcoming)
    return _view(found, "importable", None) | {"next_fire_time": next_fire_time}


def import_job(schedules: Schedules, found: Found, if_exists: Literal["raise", "keep", "replace"]) -> dict[str, Any]:
    """Add the schedule that a job becomes, and return what was done.

    With ``"keep"`` a repeated import changes nothing. A job that the board refuses stops no other.

    :raises BoardUnavailable: the store can't be reached.
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
    except _FAULTS as error:
        if isinstance(error, BoardUnavailable) and not isinstance(error, RequestRefused):
            raise
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
