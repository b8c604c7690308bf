"""Schedules as plain dicts, for tables and JSON, and as files that other boards can load."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jobboard.board import JobBoard, client_of
from jobboard.operate.explaining import explain, zone_of
from jobboard.operate.json_values import from_json, to_json
from jobboard.schedules.changes import ScheduleChange
from jobboard.schedules.crontab import CrontabItem
from jobboard.schedules.progress import FireRecord
from jobboard.schedules.schedule import Schedule, schedule_from_plain
from jobboard.schedules.triggers import Trigger
from jobboard.states import LIVE
from jobboard.text import in_one_line


def schedule_row(schedule: Schedule) -> dict[str, Any]:
    """Return what a list of schedules shows."""
    progress = schedule.progress
    return {
        "id": schedule.id,
        "state": schedule.state,
        "next_fire_time": schedule.next_fire_time,
        "zone": zone_of(schedule.trigger),
        "job": schedule.job,
        "when": explain(schedule.trigger),
        "runs": progress.runs if progress else 0,
        "missed": progress.missed if progress else 0,
        "skipped": progress.skipped if progress else 0,
        "last_skipped": progress.last_skipped if progress else 0,
        "failed": progress.failed if progress else 0,
        "source": schedule.source,
        "note": (progress.fault or progress.note) if progress else None,
    }


def schedule_rows(board: JobBoard) -> list[dict[str, Any]]:
    """Return all schedules of a board by next fire time; those that can't be decoded come last."""
    rows = [schedule_row(schedule) for schedule in board.schedules]
    rows += [{"id": broken.id, "state": "unreadable", "note": broken.fault} for broken in board.schedules.unreadable()]
    return rows


def schedule_view(schedule: Schedule, *, with_details: bool = False) -> dict[str, Any]:
    """Return everything about a schedule as plain data; its details only on request."""
    plain = schedule.to_plain()
    details = plain.pop("details")
    view = schedule_row(schedule) | plain
    progress = schedule.progress
    if progress is not None:
        view |= {"live": progress.live, "history": [fire_line(line) for line in progress.history]}
    return view | {"details": details} if with_details else view


def live_jobs(board: JobBoard, schedule: Schedule) -> list[str]:
    """Return the jobs of a schedule that are live now, of those that its last step knew of; a request for each batch.

    The next step forgets those that have ended; until then the progress has them.
    """
    known = schedule.progress.live if schedule.progress else []
    client = client_of(board)
    rows = [row for part in client.batches(known) for row in client.call(client.backend.jobs.read, part)]
    live = {row.uuid for row in rows if row is not None and row.state in LIVE}
    return [uuid for uuid in known if uuid in live]


def changes_view(changes: Sequence[ScheduleChange], wanted: Iterable[Schedule], dry_run: bool) -> dict[str, Any]:
    """Return what an apply has changed, or would: the ids, and of those that are changed the fields."""
    ids = {change.id for change in changes}
    return {
        "added": [change.id for change in changes if change.kind == "added"],
        "changed": {change.id: change.fields for change in changes if change.kind == "changed"},
        "removed": [change.id for change in changes if change.kind == "removed"],
        "unchanged": [schedule.id for schedule in wanted if schedule.id not in ids],
        "dry_run": dry_run,
    }


def change_line(change: ScheduleChange) -> str:
    """Return a change as a line of a difference; details are named, and not shown."""
    fields = ", ".join(_changed(change, field) for field in change.fields)
    return f"{change.kind}: {in_one_line(change.id)}{f' ({fields})' if fields else ''}"


def _changed(change: ScheduleChange, field: str) -> str:
    if field == "details":
        return field
    before, after = (_shown(getattr(schedule, field)) for schedule in (change.before, change.after))
    return f"{field}: {before} -> {after}"


def _shown(value: object) -> str:
    return explain(value) if isinstance(value, Trigger) else "none" if value is None else str(value)


def fire_line(line: FireRecord) -> dict[str, Any]:
    return {
        "kind": line.kind.value,
        "at": line.at,
        "fire_time": line.fire_time,
        "uuid": line.uuid,
        "count": line.count,
        "reason": line.reason,
    }


def to_file(schedules: list[dict[str, Any]]) -> list[Any]:
    """Return exported schedules as JSON data; bytes and datetimes in details become ``$bytes`` and ``$datetime``."""
    return [to_json(schedule) for schedule in schedules]


def from_file(data: object) -> list[Schedule]:
    """Return the schedules of a file.

    :raises TypeError: the file is no list. :raises ValueError: a schedule is invalid; says which and why.
    """
    if not isinstance(data, list):
        raise TypeError(f"a file of schedules holds a list, not {type(data).__name__}")
    schedules = []
    for number, item in enumerate(data):
        try:
            schedules.append(schedule_from_plain(from_json(item)))
        except (TypeError, ValueError) as error:
            raise ValueError(f"schedule {number + 1} of the file: {error}") from None
    return schedules


def from_crontab(items: list[CrontabItem], prefix: str) -> list[Schedule]:
    """Return a schedule for each command line; its id depends only on the line."""
    found: dict[str, Schedule] = {}
    for item in items:
        id = f"{prefix}{item.fingerprint}"
        found[id] = Schedule(id, item.trigger, item.name, item.details)
    return list(found.values())
