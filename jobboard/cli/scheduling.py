"""The commands of the group ``schedule``, and those of them that change nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from jobboard.cli import schedule_applying, schedule_changing, schedule_importing
from jobboard.cli.output import shown
from jobboard.cli.schedule_changing import in_zone, row_in_zone
from jobboard.cli.schedule_options import FOLD, GAP
from jobboard.cli.session import Session, command, pass_session
from jobboard.cli.values import moment_of
from jobboard.operate.explaining import explain as in_words
from jobboard.operate.explaining import upcoming, zone_of
from jobboard.operate.schedules import live_jobs, schedule_rows, schedule_view, to_file
from jobboard.schedules.triggers import Cron
from jobboard.types import Fold, Gap


@command(
    "explain",
    "jobboard schedule explain '0 3 * * 1-5' --tz Europe/Berlin",
    "jobboard schedule explain '30 2 * * *' --tz Europe/Berlin --after 2027-03-27T00:00+01:00 --count 3",
    "jobboard schedule explain @hourly --json",
)
@click.argument("expression", metavar="CRONTAB")
@click.option("--tz", default="UTC", show_default=True, help="The zone whose clocks are meant.")
@click.option(
    "--gap", type=GAP, default="shift", show_default=True, help="What becomes of a fixed time that clocks skip."
)
@click.option(
    "--fold",
    type=FOLD,
    default="first",
    show_default=True,
    help="Which is meant of a fixed time that clocks show twice.",
)
@click.option(
    "--count", type=click.IntRange(min=0, max=1000), default=5, show_default=True, help="How many times are shown."
)
@click.option("--after", metavar="TIME", help="Times after this one: ISO 8601, with an offset. Now by default.")
@pass_session
def explain(session: Session, expression: str, tz: str, gap: Gap, fold: Fold, count: int, after: str | None) -> None:
    """Say a crontab string in words, with its next times. Asks no board."""
    trigger = Cron(expression, tz, gap=gap, fold=fold)
    times = upcoming(trigger, datetime.now(UTC) if after is None else moment_of("--after", after), count)
    if session.output.json:
        view = {"trigger": trigger.to_plain(), "words": in_words(trigger), "next": [time.view() for time in times]}
        session.output.data(view)
        return
    session.output.say(in_words(trigger))
    for time in times:
        session.output.say(f"  {time.line()}")


@command("ls", "jobboard schedule ls", "jobboard schedule ls --json")
@pass_session
def ls(session: Session) -> None:
    """List the schedules by next fire time."""
    rows = schedule_rows(session.board())
    if not session.output.json:
        rows = [row_in_zone(row) for row in rows]
    session.output.table(
        ["id", "state", "next_fire_time", "job", "when", "runs", "missed", "skipped", "note"],
        rows,
        empty="there are no schedules",
    )


@command("show", "jobboard schedule show nightly --details")
@click.argument("id")
@click.option("--details", is_flag=True, help="Show its jobs' details too.")
@pass_session
def show(session: Session, id: str, details: bool) -> None:
    """Show a schedule, and what became of its last fire times."""
    board = session.board()
    schedule = board.schedules.get(id)
    view = schedule_view(schedule, with_details=details)
    if "live" in view:
        view["live"] = live_jobs(board, schedule)
    if session.output.json:
        session.output.data(view)
        return
    history, zone = view.pop("history"), view["zone"]
    session.output.record(row_in_zone(view))
    for line in history:
        for what in ("at", "fire_time"):
            if line[what] is not None:
                line[what] = in_zone(line[what], zone)
        kind = line["kind"] + (f" ({line['count']})" if line["count"] > 1 else "")
        parts = (line["at"], kind, line["fire_time"], line["uuid"], line["reason"])
        session.output.say("  " + "  ".join(map(shown, parts)))


@command("next", "jobboard schedule next nightly --count 10")
@click.argument("id")
@click.option(
    "--count", type=click.IntRange(min=1, max=1000), default=5, show_default=True, help="How many times are shown."
)
@pass_session
def next_(session: Session, id: str, count: int) -> None:
    """Show the next fire times of a schedule, without jitter, on the clocks of its zone."""
    schedules = session.board().schedules
    times = schedules.upcoming(id, count)
    if session.output.json:
        session.output.data(times)
        return
    zone = zone_of(schedules.get(id).trigger)
    for time in times:
        session.output.say(shown(in_zone(time, zone)))


@command("export", "jobboard schedule export > schedules.json")
@pass_session
def export(session: Session) -> None:
    """Write all schedules as JSON, for schedule import; without their progress."""
    session.output.data(to_file(session.board().schedules.export()))


_EXAMPLES = """\
  jobboard schedule add nightly write-report --cron '0 3 * * *' --tz Europe/Berlin
  jobboard schedule ls
  jobboard schedule explain '0 3 * * 1-5' --tz Europe/Berlin"""

_CHANGING = (*schedule_changing.COMMANDS, *schedule_applying.COMMANDS, *schedule_importing.COMMANDS)

COMMANDS = (
    click.Group(
        "schedule",
        commands=[*_CHANGING, explain, ls, show, next_, export],
        help="Schedules: what is posted when.",
        epilog=f"\b\nExamples:\n{_EXAMPLES}",
    ),
)
