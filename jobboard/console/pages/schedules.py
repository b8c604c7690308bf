"""The schedules: when they fire next, in their own time zones, and what became of the last times."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from itertools import islice
from operator import itemgetter
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from jobboard.board import JobBoard, client_of
from jobboard.console.shared import answers_of, checked, sampler_of
from jobboard.console.sorting import sorting_of
from jobboard.console.view import Page, View
from jobboard.errors import UnreadableSchedule
from jobboard.operate.explaining import upcoming
from jobboard.operate.schedule_findings import MANY_SKIPPED
from jobboard.operate.schedules import fire_line, live_jobs, schedule_row
from jobboard.operate.verdict import Limits
from jobboard.schedules.schedule import Schedule, check_schedule_id
from jobboard.states import JobState

#: How many schedules are shown, and how many are read to find them.
_MAX_SHOWN, _MAX_READ = 200, 10_000
#: How many next fire times of a schedule are shown.
_MAX_UPCOMING = 10
_COLUMNS = {column: itemgetter(column) for column in ("id", "job", "runs", "missed", "skipped")}


def show(view: View) -> Response:
    """Show the schedules that are due first."""
    wanted = view.typed("q").lower()
    rows = answers_of(view).get(("schedules", wanted), lambda: _found(view.board, wanted))
    unreadable = answers_of(view).get(
        "unreadable schedules", lambda: view.board.schedules.unreadable()[:_MAX_SHOWN], 5.0
    )
    sorting = sorting_of(view, _COLUMNS)
    return view.render(
        "schedules.html",
        rows=sorting.sorted(rows[:_MAX_SHOWN]),
        states=answers_of(view).get(("last runs", wanted), lambda: _states(view.board, rows[:_MAX_SHOWN])),
        sorting=sorting,
        has_more=len(rows) > _MAX_SHOWN,
        unhandled=_unhandled(view),
        unreadable=unreadable,
        q=view.typed("q"),
    )


def act(view: View) -> Response:
    """Pause, resume or fire a schedule, and return to the page that it was asked from."""
    view.require("schedules")
    id, action = checked(check_schedule_id, view.field("id")), view.field("action")
    schedules = view.board.schedules
    if action == "fire":
        job = schedules.fire_now(id, by=view.who, reason=view.reason)
        answers_of(view).forget()
        view.acted("schedules", [id])
        return RedirectResponse(view.url(f"jobs/{job.uuid}"), 303)
    if action == "pause":
        schedules.pause(id, view.reason, by=view.who)
    elif action == "resume":
        schedules.resume(id, by=view.who, reason=view.reason)
    else:
        raise HTTPException(400, "this form can pause, resume and fire a schedule")
    answers_of(view).forget()
    view.acted("schedules", [id])
    if view.field("from") == "schedule":
        return RedirectResponse(view.url("schedule", id=id), 303)
    return RedirectResponse(view.url("schedules", q=view.typed("q")), 303)


def show_one(view: View) -> Response:
    """Explain one schedule: its trigger in words, its next fire times, and what became of the last ones."""
    id = checked(check_schedule_id, view.query("id"))
    try:
        schedule = view.board.schedules.get(id)
    except UnreadableSchedule as error:
        raise HTTPException(409, str(error)) from error
    progress = schedule.progress
    return view.render(
        "schedule.html",
        row=_row(schedule),
        unhandled=_unhandled(view),
        schedule=schedule,
        times=_next_times(view.board, schedule),
        history=[fire_line(line) for line in reversed(progress.history)] if progress else [],
        live=sorted(live_jobs(view.board, schedule)),
    )


def _found(board: JobBoard, wanted: str) -> list[dict[str, Any]]:
    """Return one more than is shown, if there are more."""
    schedules: Iterator[Schedule] = islice(board.schedules, _MAX_READ)
    fitting = (each for each in schedules if wanted in each.id.lower() or wanted in each.job.lower())
    return [_row(schedule) for schedule in islice(fitting, _MAX_SHOWN + 1)]


def _unhandled(view: View) -> Collection[str]:
    """Return the ids of schedules whose jobs nobody has a handler for, as the sampler saw it; no request."""
    unhandled: Collection[str] = (sampler_of(view).newest or {}).get("schedules", {}).get("unhandled", ())
    return unhandled


def _states(board: JobBoard, rows: list[dict[str, Any]]) -> dict[str, JobState]:
    """Return the states of the jobs posted last, by uuid, as far as they are kept; a request for each batch."""
    client = client_of(board)
    uuids = [row["last"]["uuid"] for row in rows if row["last"] and row["last"]["uuid"]]
    found = [row for part in client.batches(uuids) for row in client.call(client.backend.jobs.read, part)]
    return {row.uuid: row.state for row in found if row is not None}


def _row(schedule: Schedule) -> dict[str, Any]:
    row = schedule_row(schedule)
    time = row["next_fire_time"]
    late = (datetime.now(UTC) - time).total_seconds() if time else 0.0
    row["is_overdue"] = row["state"] == "active" and late > Limits().overdue
    row["skips"] = row["last_skipped"] >= MANY_SKIPPED
    fires = schedule.progress.fires if schedule.progress else []
    row["last"] = fire_line(fires[-1]) if fires else None
    row["fault"] = schedule.progress.fault if schedule.progress else None
    return row | {"local": _local(time, row["zone"])}


def _local(time: datetime | None, zone: str) -> str | None:
    from jobboard.schedules.triggers.zones import zone_named

    return None if time is None else f"{time.astimezone(zone_named(zone)):%a %Y-%m-%d %H:%M:%S} {zone}"


def _next_times(board: JobBoard, schedule: Schedule) -> list[Any]:
    times = board.schedules.upcoming(schedule.id, _MAX_UPCOMING)
    if not times:
        return []
    notes = {each.fire_time: each.note for each in upcoming(schedule.trigger, datetime.now(UTC), _MAX_UPCOMING)}
    zone = schedule_row(schedule)["zone"]
    return [{"at": time, "local": _local(time, zone), "note": notes.get(time)} for time in times]


PAGES = (
    Page("schedules", show, act, rights=("schedules",), title="Schedules", order=60),
    # Ids have any characters, slashes too, so they stand in the query.
    Page("schedule", show_one),
)
