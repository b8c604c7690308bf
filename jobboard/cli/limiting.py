"""The commands about limits: limits and its group, lanes."""

from __future__ import annotations

from typing import Any

import click

from jobboard.cli.applying import Applying, apply_options
from jobboard.cli.session import Session, by_and_note, command, group, options, pass_session
from jobboard.cli.values import read_text, source_of
from jobboard.errors import NotFound
from jobboard.limit import Limit
from jobboard.operate.limits import apply_changes, changes_to, lane_row, lane_view, limit_row, limit_view
from jobboard.operate.limits_file import limits_as_toml, limits_in, rate_of, terms_of
from jobboard.operate.pasting import file_argument

_COLUMNS = ("name", "lane", "running", "rate", "order", "paused", "by", "at", "reason")
_LANE_COLUMNS = (
    "lane", "taken", "of", "running", "claimable", "kept", "retrying", "blocked", "oldest", "rate", "order", "paused",
)  # fmt: skip

_target = options(
    click.option("--job-name", "name", help="The name of the jobs that it is of."),
    click.option("--lane", help="The lane that it is of, or PREFIX:* for each lane with that prefix."),
)


@command(
    "set",
    "jobboard limits set --lane 'tenant:*' --running 2",
    "jobboard limits set --lane stripe --rate 24/60s --burst 5",
    "jobboard limits set --lane 'order:*' --running 1 --order strict",
    "jobboard limits set --job-name import --running 100 --note 'the database is slow'",
)
@_target
@click.option("--running", type=int, metavar="N", help="How many of its jobs may be claimed at a time; 0: none.")
@click.option("--rate", metavar="N/SPAN", help="Of a lane: how many of its jobs may start in that time: 30/60s.")
@click.option("--burst", type=int, metavar="N", help="How many may start at once after a quiet time (1); see --rate.")
@click.option("--order", type=click.Choice(["free", "strict"]), default="free", show_default=True)
@by_and_note
@pass_session
def set_(session: Session, /, by: str, note: str | None, rate: str | None, burst: int | None, **given: Any) -> None:
    """Set the limit of a name, a lane or a prefix; it replaces the one that is there. What runs is not stopped.

    With --order strict no job of a lane passes one that waits for its retry.
    """
    if burst is not None and rate is None:
        raise click.UsageError("--burst belongs to --rate")
    known = None if rate is None else rate_of(rate, 1 if burst is None else burst)
    limit = session.board_to_change().limits.set(**given, rate=known, by=by, reason=note)
    session.output.report(limit_view(limit), str(limit))


@command("remove", "jobboard limits remove --lane 'tenant:*'", "jobboard limits remove --job-name import")
@_target
@by_and_note
@pass_session
def remove(session: Session, /, name: str | None, lane: str | None, by: str, note: str | None) -> None:
    """Remove the limit of exactly this name, lane or prefix; a pause of a lane stays. What waited may start."""
    board = session.board()
    limit = board.limits.get(name=name, lane=lane)
    if limit is None or not board.limits.remove(name=name, lane=lane, by=by, reason=note):
        what = f"jobs named {name!r}" if lane is None else f"the lane {lane!r}"
        raise NotFound(f"board {session.name!r} has no limit of {what}; see: jobboard limits")
    session.output.report({"name": name, "lane": lane, "removed": True}, f"{limit} is removed")


@command(
    "apply",
    "jobboard limits apply --dry-run",
    "jobboard limits apply --yes --note 'release 4711'",
    "jobboard limits apply limits.toml --remove",
)
@click.argument("file", required=False)
@click.option("--remove", "removing", is_flag=True, help="Remove the board's limits that the file does not have, too.")
@apply_options
@by_and_note
@pass_session
def apply(
    session: Session, /, file: str | None, removing: bool, dry_run: bool, yes: bool, by: str, note: str | None
) -> None:
    """Give the board the limits of the table [limits] in jobboard.toml, or in FILE (- for standard input).

    Shows what differs, and asks first. Limits that only the board has stay, unless --remove says otherwise, and pauses
    stay as they are. Again it changes nothing.
    """
    wanted = _wanted(session, file, removing)
    board = session.board_to_preview() if dry_run else session.board_to_change()
    changes = changes_to(wanted, board.limits, removing=removing)
    words = [*([file_argument(file)] if file else []), *(["--remove"] if removing else []), "--yes"]
    again = ["limits", "apply", *words]
    applying = Applying(session, "limit", again, dry_run=dry_run, yes=yes)
    if applying.may_change([change.line() for change in changes]):
        apply_changes(board, changes, by=by, reason=note)
    data = {"changes": [change.view() for change in changes], "dry_run": dry_run}
    applying.report(changes, data, "the limits are as the file says")


def _wanted(session: Session, file: str | None, removing: bool) -> list[Limit]:
    path = session.config_file() if file is None else file
    wanted = limits_in(read_text(source_of(path)), path)
    if not (wanted or removing):
        raise click.UsageError(f"{path} has no limits in a table [limits]")
    return wanted


@command("export", "jobboard limits export > limits.toml")
@pass_session
def export(session: Session) -> None:
    """Write the limits as TOML, for limits apply; without pauses, and without who set them."""
    limits = [limit for limit in session.board().limits if terms_of(limit)]
    session.output.report([limit_view(limit) for limit in limits], limits_as_toml(limits))


@group(
    "limits",
    [set_, remove, apply, export],
    "jobboard limits set --lane 'tenant:*' --running 2",
    "jobboard limits",
    "jobboard limits apply --dry-run",
)
@pass_session
def limits(session: Session) -> None:
    """List the limits of names and lanes; its commands set, remove, apply and export them."""
    view = limit_view if session.output.json else limit_row
    rows = [view(limit) for limit in session.board().limits]
    session.output.table(_COLUMNS, rows, empty="there are no limits")


@command("lanes", "jobboard lanes", "jobboard lanes tenant:42", "jobboard lanes --limit 100 --json")
@click.argument("lane", required=False)
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many at most.")
@pass_session
def lanes(session: Session, lane: str | None, limit: int) -> None:
    """List the lanes that have live jobs, those with the most blocked jobs first; or show one."""
    found = session.board().limits
    listed = [found.lane(lane)] if lane is not None else found.lanes(limit)
    rows = [lane_view(each) if session.output.json else lane_row(each) for each in listed]
    if lane is not None:
        session.output.record(rows[0])
        return
    session.output.table(_LANE_COLUMNS, rows, empty="no lane has jobs")


COMMANDS = (limits, lanes)
