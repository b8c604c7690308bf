"""The options of ``schedule add`` and ``schedule modify``."""

from __future__ import annotations

from typing import Any

import click

from jobboard.cli.session import PRIORITY, options
from jobboard.cli.values import SPAN, details_of, moment_of
from jobboard.schedules.schedule import COALESCE, OVERLAP

GAP = click.Choice(["shift", "skip"])
FOLD = click.Choice(["first", "second", "both"])

schedule_options = options(
    click.option("--cron", metavar="CRONTAB", help="When: a crontab string, such as '0 3 * * mon-fri' or @hourly."),
    click.option("--tz", metavar="ZONE", help="The zone whose clocks are meant (of a new one: UTC)."),
    click.option("--gap", type=GAP, help="What becomes of a time that clocks skip."),
    click.option("--fold", type=FOLD, help="Which of a time shown twice."),
    click.option("--every", type=SPAN, help="When: every so often, such as 30s, 5m, 1h30m, 2d."),
    click.option("--once", metavar="TIME", help="When: at one moment; ISO 8601 with an offset."),
    click.option("--trigger", metavar="JSON", help="When: any trigger as plain data; @FILE reads it from a file."),
    click.option("--details", help="The jobs' details: a JSON object; @FILE reads one, - reads standard input."),
    click.option("--priority", type=PRIORITY, help="The jobs' priority."),
    click.option("--max-attempts", type=click.IntRange(min=1), help="Attempts after which a job goes to the trash."),
    click.option("--lane", help="The jobs' lane, whose limits hold for them; '' for none."),
    click.option("--coalesce", type=click.Choice(COALESCE), help="Of several overdue times post which (latest)."),
    click.option("--misfire-grace", type=SPAN, help="Later than this is missed."),
    click.option("--max-instances", metavar="N", help="Live jobs at a time, or any (1)."),
    click.option("--overlap", type=click.Choice(OVERLAP), help="What becomes of a time beyond that (skip)."),
    click.option("--jitter", type=SPAN, help="Put every fire off by 0 to this span."),
    click.option("--start", metavar="TIME", help="Not before; ISO 8601 with an offset."),
    click.option("--end", metavar="TIME", help="Not after; ISO 8601 with an offset."),
    click.option("--max-runs", type=click.IntRange(min=1), help="Posted fire times after which it is finished."),
)


def fields_of(options: dict[str, Any]) -> dict[str, Any]:
    """Return the given arguments of a Schedule but its trigger."""
    given = {what: value for what, value in options.items() if value is not None}
    if given.get("lane") == "":
        given["lane"] = None
    if "details" in given:
        given["details"] = details_of(given["details"])
    for what in ("start", "end"):
        if what in given:
            given[what] = moment_of(f"--{what}", given[what])
    if "max_instances" in given:
        given["max_instances"] = _instances_of(given["max_instances"])
    return given


def _instances_of(text: str) -> int | None:
    if text == "any":
        return None
    try:
        return int(text)
    except ValueError:
        raise click.UsageError(f"--max-instances is a number, or any; not {text!r}") from None
