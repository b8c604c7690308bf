"""The commands that change schedules: add, modify, pause, resume, rm, fire, backfill."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from jobboard.cli.output import count, shown
from jobboard.cli.schedule_options import fields_of, schedule_options
from jobboard.cli.schedule_times import Times
from jobboard.cli.session import Session, by_and_note, command, confirm, if_exists_option, pass_session, yes_option
from jobboard.cli.values import moment_of
from jobboard.operate.explaining import zone_of
from jobboard.operate.schedules import schedule_view
from jobboard.operate.views import view_of
from jobboard.schedules.schedule import Schedule
from jobboard.schedules.triggers.zones import zone_named


def in_zone(moment: datetime, zone: str) -> datetime:
    """Return the moment on the clocks of a schedule's zone; in UTC if it has none of its own."""
    return moment.astimezone(UTC if zone == "UTC" else zone_named(zone))


def row_in_zone(row: dict[str, Any]) -> dict[str, Any]:
    """Return a schedule's row, with its next fire time in its zone."""
    at = row.get("next_fire_time")
    return row if at is None else row | {"next_fire_time": in_zone(at, row["zone"])}


@command(
    "add",
    "jobboard schedule add nightly write-report --cron '0 3 * * mon-fri' --tz Europe/Berlin",
    'jobboard schedule add poll fetch --every 30s --jitter 5 --details \'{"url": "http://..."}\'',
    "jobboard schedule add launch announce --once 2030-01-31T09:00+01:00",
)
@click.argument("id")
@click.argument("job")
@schedule_options
@click.option("--paused", is_flag=True, help="Nothing is due until it is resumed.")
@click.option("--next-run-time", metavar="TIME", help="Its first fire time, whatever --cron or --every says.")
@if_exists_option
@pass_session
def add(
    session: Session, /, id: str, job: str, paused: bool, next_run_time: str | None, if_exists: Any, **options: Any
) -> None:
    """Add a schedule that posts jobs named JOB."""
    trigger = Times.taken_from(options).of_new()
    fields = fields_of(options)
    first = None if next_run_time is None else moment_of("--next-run-time", next_run_time)
    schedule = Schedule(id=id, trigger=trigger, job=job, paused=paused, **fields)
    board = session.board_to_change()
    _report(session, board.schedules.add(schedule, if_exists, next_run_time=first))
    session.warn_of_unhandled(board, job)


@command(
    "modify",
    "jobboard schedule modify nightly --cron '0 4 * * *'",
    "jobboard schedule modify nightly --tz Europe/Berlin",
    "jobboard schedule modify poll --max-instances any",
)
@click.argument("id")
@click.option("--job", help="The name of its jobs.")
@schedule_options
@by_and_note
@pass_session
def modify(session: Session, /, id: str, by: str, note: str | None, **options: Any) -> None:
    """Change what is given, and keep all else; the progress stays, unless the times change.

    A --cron or --every keeps zone, --gap, --fold, exclusions and the start of a trigger; --tz, --gap and --fold alone
    change a crontab or a calendar.
    """
    times = Times.taken_from(options)
    fields = fields_of(options)
    if not (times.given or fields):
        raise click.UsageError("say what to change")
    board = session.board()
    if times.given:
        fields["trigger"] = times.instead_of(board.schedules.get(id).trigger)
    schedule = board.schedules.modify(id, by=by, reason=note, **fields)
    _report(session, schedule)
    session.warn_of_unhandled(board, schedule.job)


_all = click.option("--all", "every", is_flag=True, help="All schedulers of the board, wherever they run.")


@command(
    "pause",
    "jobboard schedule pause nightly --note 'the printer is broken'",
    "jobboard schedule pause --all --note 'the database moves'",
)
@click.argument("id", required=False)
@_all
@by_and_note
@pass_session
def pause(session: Session, id: str | None, every: bool, by: str, note: str | None) -> None:
    """Pause a schedule: it is not due until it is resumed; with --all no scheduler posts anything."""
    _check_one_or_all(id, every)
    if id is not None:
        _report(session, session.board().schedules.pause(id, note, by=by))
        return
    session.board().schedules.pause_all(note, by=by)
    session.output.report({"all_paused": True}, "all schedulers are paused")


@command("resume", "jobboard schedule resume nightly", "jobboard schedule resume --all")
@click.argument("id", required=False)
@_all
@by_and_note
@pass_session
def resume(session: Session, id: str | None, every: bool, by: str, note: str | None) -> None:
    """Undo a pause, or try a schedule again that was set aside; fire times that passed are left out.

    After --all, those that passed are due by each schedule's own policies.
    """
    _check_one_or_all(id, every)
    if id is not None:
        _report(session, session.board().schedules.resume(id, by=by, reason=note))
        return
    session.board().schedules.resume_all(by=by, reason=note)
    session.output.report({"all_paused": False}, "schedulers post again")


def _check_one_or_all(id: str | None, every: bool) -> None:
    if (id is None) is not every:
        raise click.UsageError("name a schedule, or say --all")


@command("rm", "jobboard schedule rm nightly", "jobboard schedule rm --all --yes")
@click.argument("id", required=False)
@click.option("--all", "every", is_flag=True, help="Remove every schedule of the board.")
@yes_option
@by_and_note
@pass_session
def rm(session: Session, id: str | None, every: bool, yes: bool, by: str, note: str | None) -> None:
    """Remove a schedule; the jobs that it posted stay. Asks first if it is --all."""
    _check_one_or_all(id, every)
    schedules = session.board().schedules
    if id is not None:
        schedules.remove(id, by=by, reason=note)
        session.output.report({"id": id, "removed": True}, f"{id} is removed")
        return
    if not yes:
        confirm(f"Remove every schedule of board {session.name!r}?")
    removed = schedules.remove_all(by=by, reason=note)
    session.output.report({"removed": removed}, f"{count(removed, 'schedule')} removed")


@command("fire", "jobboard schedule fire nightly")
@click.argument("id")
@by_and_note
@pass_session
def fire(session: Session, id: str, by: str, note: str | None) -> None:
    """Post its job now, and print the job's uuid; its progress does not change."""
    job = session.board().schedules.fire_now(id, by=by, reason=note)
    session.output.report(view_of(job), job.uuid)


@command("backfill", "jobboard schedule backfill nightly --from 2030-01-01T00:00Z --to 2030-01-07T23:59Z")
@click.argument("id")
@click.option("--from", "start", required=True, metavar="TIME", help="The first moment; ISO 8601 with an offset.")
@click.option("--to", "end", required=True, metavar="TIME", help="The last one.")
@by_and_note
@pass_session
def backfill(session: Session, id: str, start: str, end: str, by: str, note: str | None) -> None:
    """Post now the jobs of all fire times of a span of time; the schedule itself goes on meanwhile."""
    span = moment_of("--from", start), moment_of("--to", end)
    jobs = session.board().schedules.backfill(id, *span, by=by, reason=note)
    session.output.report([view_of(job) for job in jobs], f"{count(len(jobs), 'job')} posted")


def _report(session: Session, schedule: Schedule) -> None:
    next_fire_time = schedule.next_fire_time
    zone = zone_of(schedule.trigger)
    when = f"next at {shown(in_zone(next_fire_time, zone))}" if next_fire_time else schedule.state
    session.output.report(schedule_view(schedule), f"{schedule.id}: {when}")


COMMANDS = (add, modify, pause, resume, rm, fire, backfill)
