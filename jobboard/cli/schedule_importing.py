"""The command that adds schedules from elsewhere: a file, a crontab, or a job store of APScheduler 3."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import click

from jobboard.cli.output import count
from jobboard.cli.schedule_changing import row_in_zone
from jobboard.cli.schedule_files import crontab_options, schedules_of
from jobboard.cli.session import Session, command, is_given, pass_session
from jobboard.cli.values import read_text, uri_of
from jobboard.errors import AlreadyScheduled
from jobboard.operate.schedules import schedule_row

#: Of how many jobs with the same note the ids are told.
MAX_TOLD = 5
_COLUMNS = ("id", "outcome", "job", "when", "next_fire_time", "reason")


@command(
    "import",
    "jobboard schedule import schedules.json --if-exists replace",
    "jobboard schedule import --crontab /etc/crontab --system --job shell --tz Europe/Berlin",
    "jobboard schedule import --from sqlite:///jobs.sqlite --map app.tasks:report=report --dry-run",
)
@click.argument("file", required=False)
@crontab_options
@click.option(
    "--from",
    "source",
    metavar="STORE_URI",
    help="A job store of APScheduler 3; @FILE and - read the URI. Stop it first.",
)
@click.option(
    "--map",
    "names",
    metavar="MODULE:FUNCTION=NAME",
    multiple=True,
    help="The name of the jobs of a function; repeat it.",
)
@click.option("--jobs-in", metavar="NAME", help="The store's table, key, path or collection, if not APScheduler's own.")
@click.option("--dry-run", is_flag=True, help="Only show what would become of each; do this first.")
@click.option(
    "--if-exists",
    type=click.Choice(["raise", "keep", "replace"]),
    default="raise",
    show_default="raise; keep with --from",
)
@pass_session
def import_(session: Session, /, file: str | None, source: str | None, **options: Any) -> None:
    """Add the schedules of FILE (- for standard input): what export wrote, or a crontab; or those of APScheduler.

    A job store of APScheduler is only read, and nothing in its pickles is run. Each job's outcome is told; those that
    can't be imported stop no other, and make the exit status 1.
    """
    if (file is None) is (source is None):
        raise click.UsageError("name a FILE, or a job store by --from")
    if source is not None:
        _import_jobs(session, source, **options)
    elif options["names"] or options["jobs_in"]:
        raise click.UsageError("--map and --jobs-in belong to --from")
    else:
        _import_file(session, str(file), **options)


def _import_file(
    session: Session, file: str, *, dry_run: bool, if_exists: Any, names: Any, jobs_in: Any, **crontab: Any
) -> None:
    schedules = schedules_of(file, **crontab)
    if dry_run:
        rows = [schedule_row(schedule) for schedule in schedules]
        session.output.report(rows, f"{count(len(rows), 'schedule')} importable")
        return
    board = session.board_to_change()
    with session.output.progress("importing", len(schedules)) as step:
        for number, schedule in enumerate(schedules):
            try:
                board.schedules.add(schedule, if_exists)
            except (AlreadyScheduled, ValueError) as error:
                if number == 0:
                    raise
                raise click.ClickException(f"{error}; {count(number, 'schedule')} before it imported") from error
            step()
    if session.output.json:
        session.output.data([schedule_row(board.schedules.get(schedule.id)) for schedule in schedules])
    session.output.say(f"{count(len(schedules), 'schedule')} imported")


def _import_jobs(
    session: Session, source: str, *, crontab: bool, names: tuple[str, ...], jobs_in: str | None, dry_run: bool,
    if_exists: Any, **_: Any,
) -> None:  # fmt: skip
    if crontab:
        raise click.UsageError("--crontab needs a FILE, not --from")
    # Not imported by commands that only read a file: the client libraries of stores.
    from jobboard.apscheduler.importing import found_jobs, import_job, preview
    from jobboard.apscheduler.stores import open_store

    now, known = time.time(), _names_of(names)
    uri = read_text(source).strip() if source == "-" else uri_of("--from", source)
    mode: Any = if_exists if is_given("if_exists") else "keep"
    rows = []
    with open_store(uri, jobs_in) as store:
        schedules = None if dry_run else session.board_to_change().schedules
        with session.output.progress("importing", store.count) as step:
            for found in found_jobs(store.jobs, known, now):
                rows.append(preview(found, now) if schedules is None else import_job(schedules, found, mode))
                step()
    shown = rows if session.output.json else [row_in_zone(row) for row in rows]
    session.output.table(_COLUMNS, shown, empty="the store has no jobs")
    if not session.output.json:
        _warn_of_notes(session, rows)
    refused = sum(row["outcome"] == "refused" for row in rows)
    if refused:
        raise click.ClickException(
            f"{count(refused, 'job')} of {len(rows)} can't be imported; the reasons are in the list"
        )


def _warn_of_notes(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Say what differs, each note once, with the jobs that it is about."""
    about: dict[str, list[str]] = {}
    for row in rows:
        for note in row["notes"] if row["outcome"] not in ("refused", "kept") else ():
            about.setdefault(note, []).append(repr(row["id"]))
    for note, ids in about.items():
        more = f" and {len(ids) - MAX_TOLD} more (--json has all)" if len(ids) > MAX_TOLD else ""
        session.output.warn(f"{', '.join(ids[:MAX_TOLD])}{more}: {note}")


def _names_of(options: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for option in options:
        function, _, name = option.partition("=")
        module, _, attribute = function.partition(":")
        if not module or not attribute or not name:
            raise click.UsageError(f"--map is MODULE:FUNCTION=NAME, such as app.tasks:report=report; not {option!r}")
        found[function] = name
    return found


COMMANDS = (import_,)
