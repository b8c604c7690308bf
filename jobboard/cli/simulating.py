"""The command that tries limits on arrivals of jobs: simulate."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jobboard.cli.output import count
from jobboard.cli.session import Session, command, pass_session
from jobboard.cli.values import read_text

if TYPE_CHECKING:
    from jobboard.simulation.arrivals import Arrival
    from jobboard.simulation.report import Comparison
    from jobboard.simulation.run import Slots


#: Of one conductor.
MAX_SLOTS = 10_000


def _read_slots(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> list[Slots]:
    """Read slots: ``8``, or ``import=4`` of one name, or ``import,export=4`` of several."""
    return [_slots_of(value) for value in values]


def _slots_of(value: str) -> Slots:
    from jobboard.simulation.run import Slots
    from jobboard.validation import check_text

    names, equals, number = value.rpartition("=")
    try:
        found = frozenset(check_text("name", name) for name in names.split(",")) if equals else None
        slots = Slots(int(number), found)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is no number of slots, such as 8 or NAME=8: {error}") from None
    if not 1 <= slots.count <= MAX_SLOTS:
        raise click.BadParameter(f"{value!r} is no number of slots from 1 to {MAX_SLOTS}")
    return slots


@command(
    "simulate",
    "jobboard simulate limits.toml arrivals.csv",
    "jobboard simulate jobboard.toml arrivals.csv --slots 16 --chart waits.svg",
    "jobboard simulate limits.toml arrivals.csv --slots 8 --slots import=4 --json",
)
@click.argument("limits")
@click.argument("arrivals")
@click.option(
    "--slots",
    multiple=True,
    callback=_read_slots,
    default=["8"],
    show_default="8",
    metavar="[NAME,...=]N",
    help="How many jobs a conductor runs at once, only jobs of these names if there are any; once for each conductor.",
)
@click.option("--chart", metavar="FILE", help="Draw the waits and shares into this file, as SVG.")
@pass_session
def simulate(session: Session, limits: str, arrivals: str, slots: Sequence[Slots], chart: str | None) -> None:
    """Try limits before a deploy: run arrivals of jobs with and without them, and compare the waits.

    LIMITS is a TOML file with a table [limits], as in jobboard.toml. ARRIVALS is a CSV file (- for standard input)
    with the columns at (seconds, or ISO 8601 times), name, lane, duration (seconds) and priority. The rules of a real
    board run in a time of their own; no store is used.
    """
    from jobboard.operate.limits_file import limits_in
    from jobboard.simulation.comparing import compare

    rules = limits_in(read_text(f"@{limits}"), limits)
    if not rules:
        raise click.UsageError(f"{limits} has no table [limits] with a limit in it")
    jobs = _read(arrivals)
    with session.output.progress("simulating", len(jobs)) as step:
        comparison = compare(jobs, rules, slots, step)
    if chart is not None:
        from jobboard.simulation.chart import chart_of

        Path(chart).write_text(chart_of(comparison), encoding="utf-8")
    _show(session, comparison)


def _read(path: str) -> list[Arrival]:
    from jobboard.simulation.arrivals import read_arrivals

    if path == "-":
        return read_arrivals(sys.stdin, "standard input")
    with open(path, encoding="utf-8", newline="") as lines:
        return read_arrivals(lines, path)


def _show(session: Session, comparison: Comparison) -> None:
    from jobboard.simulation.report import COLUMNS, data_of, rows_of, seconds_text

    output, limited = session.output, comparison.limited
    if output.json:
        output.data(data_of(comparison))
        return
    output.table(COLUMNS, rows_of(comparison), empty="")
    jobs, lanes = count(limited.whole.jobs, "job"), count(len(limited.groups), "lane")
    ended = [seconds_text(outcome.ended) for outcome in (comparison.without, limited)]
    output.hint(f"{jobs} in {lanes}; the last one ended after {ended[0]} without the limits, and {ended[1]} with them")


COMMANDS = (simulate,)
