"""The command that waits until jobs have ended."""

from __future__ import annotations

from typing import Any

import click

from jobboard.cli.output import count
from jobboard.cli.session import Session, command, pass_session
from jobboard.cli.values import SPAN
from jobboard.client.edge_reading import MAX_JOBS
from jobboard.operate.finding import find_job
from jobboard.operate.waiting import wait_for_ends
from jobboard.operate.waiting_families import wait_for_families
from jobboard.states import LIVE

_COLUMNS = ("uuid", "name", "key", "state", "reason")
#: The exit status of timeout(1), which scripts know.
TIMED_OUT = 124


@command(
    "wait",
    "jobboard wait 3f2a",
    "jobboard wait 3f2a report:2026-11-29 --timeout 2h",
    "jobboard wait 3f2a --with-children --timeout 6h",
    "jobboard wait 3f2a --json | jq -r '.[].result'",
)
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@click.option("--timeout", type=SPAN, help="Wait this long at most, for all of them; by default until Ctrl-C.")
@click.option(
    "--with-children",
    is_flag=True,
    help=f"Also for the jobs that wait for them, over all levels, {MAX_JOBS:,} at most; lists what is not complete.",
)
@pass_session
def wait(session: Session, jobs: tuple[str, ...], timeout: float | None, with_children: bool) -> None:
    """Wait until jobs have ended. Exit status 0: all are complete; 1: one is not, and never will be by itself.

    Status 124: the --timeout is over, and one has not ended.
    """
    board = session.board()
    named = [find_job(board, job) for job in jobs]
    if with_children:
        family = wait_for_families(board, named, timeout)
        if family is None:
            raise click.ClickException(f"more than {MAX_JOBS:,} jobs wait for these; wait for some of them by name")
        ends, is_timed_out = family.ends, family.is_timed_out
        _show(session, ends)
    else:
        ends = wait_for_ends(board, named, timeout)
        is_timed_out = any(end["state"] in LIVE for end in ends)
        session.output.table(_COLUMNS, ends, empty="no jobs")
    if is_timed_out:
        raise click.exceptions.Exit(TIMED_OUT)
    if any(end["state"] != "COMPLETE" for end in ends):
        raise click.exceptions.Exit(1)


def _show(session: Session, ends: list[dict[str, Any]]) -> None:
    """Show all ends as JSON, and to people those of jobs that are not complete: there may be thousands."""
    others = [end for end in ends if end["state"] != "COMPLETE"]
    if session.output.json or others:
        session.output.table(_COLUMNS, ends if session.output.json else others, empty="no jobs")
    session.output.say(f"{len(ends) - len(others):,} of {count(len(ends), 'job')} complete")


COMMANDS = (wait,)
