"""The command that waits until jobs have ended."""

from __future__ import annotations

import click

from jobboard.cli.session import Session, command, pass_session
from jobboard.cli.values import SPAN
from jobboard.operate.finding import find_job
from jobboard.operate.waiting import wait_for_ends
from jobboard.states import LIVE

#: The exit status of timeout(1), which scripts know.
TIMED_OUT = 124


@command(
    "wait",
    "jobboard wait 3f2a",
    "jobboard wait 3f2a report:2026-11-29 --timeout 2h",
    "jobboard wait 3f2a --json | jq -r '.[].result'",
)
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@click.option("--timeout", type=SPAN, help="Wait this long at most, for all of them; by default until Ctrl-C.")
@pass_session
def wait(session: Session, jobs: tuple[str, ...], timeout: float | None) -> None:
    """Wait until jobs have ended. Exit status 0: all are complete; 1: one is not, and never will be by itself.

    Status 124: the --timeout is over, and one has not ended.
    """
    board = session.board()
    ends = wait_for_ends(board, [find_job(board, job) for job in jobs], timeout)
    session.output.table(("uuid", "name", "state", "reason"), ends, empty="no jobs")
    states = {end["state"] for end in ends}
    if states & LIVE:
        raise click.exceptions.Exit(TIMED_OUT)
    if states != {"COMPLETE"}:
        raise click.exceptions.Exit(1)


COMMANDS = (wait,)
