"""The commands around schedules: schedule explain."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from jobboard.cli.session import Session, command, pass_session
from jobboard.operate.explaining import explain as in_words
from jobboard.operate.explaining import upcoming
from jobboard.scheduler.triggers import Cron

_EXAMPLES = """\
  jobboard schedule add nightly write-report --cron '0 3 * * *' --tz Europe/Berlin
  jobboard schedule ls
  jobboard schedule explain '0 3 * * 1-5' --tz Europe/Berlin"""


def add_scheduling(group: click.Group) -> None:
    """Add the commands to the group."""

    @group.group("schedule", epilog=f"\b\nExamples:\n{_EXAMPLES}")
    def schedule() -> None:
        """Schedules: what is posted when."""

    add_explaining(schedule)


def add_explaining(group: click.Group) -> None:
    @command(group, "explain", examples="""
jobboard schedule explain '0 3 * * 1-5' --tz Europe/Berlin
jobboard schedule explain '30 2 * * *' --tz Europe/Berlin --after 2027-03-27T00:00+01:00 --count 3
jobboard schedule explain @hourly --json
""")  # fmt: skip
    @click.argument("expression", metavar="CRONTAB")
    @click.option("--tz", default="UTC", show_default=True, help="The zone whose clocks are meant.")
    @click.option("--gap", type=click.Choice(["shift", "skip"]), default="shift", show_default=True,
                  help="What becomes of a fixed time that clocks skip.")  # fmt: skip
    @click.option("--fold", type=click.Choice(["first", "second", "both"]), default="first", show_default=True,
                  help="Which is meant of a fixed time that clocks show twice.")  # fmt: skip
    @click.option("--count", type=click.IntRange(min=0, max=1000), default=5, show_default=True, help="So many times.")
    @click.option("--after", metavar="TIME", help="Times after this one: ISO 8601, with an offset. Now by default.")
    @pass_session
    def explain(session: Session, expression: str, tz: str, gap: str, fold: str, count: int, after: str | None) -> None:
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


def moment_of(option: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{option} is no ISO 8601 time: {text!r}") from None
    if moment.tzinfo is None:
        raise click.UsageError(f"{option} needs an offset, as in 2026-12-01T09:00:00+01:00")
    return moment
