"""Files of schedules: what ``schedule export`` wrote, or a crontab."""

from __future__ import annotations

import click

from jobboard.cli.session import options
from jobboard.cli.values import json_of, read_text, source_of
from jobboard.operate.schedules import from_crontab, from_file
from jobboard.schedules.crontab import parse_crontab
from jobboard.schedules.schedule import Schedule

crontab_options = options(
    click.option("--crontab", is_flag=True, help="The file is a crontab: each line's command becomes details."),
    click.option("--system", is_flag=True, help="A system's crontab, with a user before each command."),
    click.option("--job", default="command", show_default=True, help="The name of a crontab's jobs."),
    click.option("--tz", default="UTC", show_default=True, help="The zone of a crontab's times."),
    click.option("--prefix", default="crontab-", show_default=True, help="What a crontab's ids begin with."),
)


def schedules_of(file: str, *, crontab: bool, system: bool, job: str, tz: str, prefix: str) -> list[Schedule]:
    """Return the schedules of a file, or of standard input if it is ``-``."""
    if crontab:
        return from_crontab(parse_crontab(read_text(source_of(file)), job, tz=tz, system=system), prefix)
    return from_file(json_of("FILE", source_of(file)))
