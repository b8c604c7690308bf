"""The command doctor: what is installed, and what a URI reaches."""

from __future__ import annotations

import click

from jobboard.cli.session import Session, command, pass_session
from jobboard.cli.values import SPAN

_MARKS = {True: "ok", False: "BAD", None: "-"}
_STYLES = {True: "green", False: "bold red", None: "yellow"}


@command(
    "doctor",
    "jobboard doctor",
    "jobboard doctor --board redis://localhost:6379/0",
    "jobboard doctor --trial --board postgresql://me@db/app --timeout 5s",
)
@click.option("--trial", is_flag=True, help="Also post a job that is due in a day, and cancel it; creates the board.")
@click.option("--timeout", type=SPAN, default="10s", show_default=True, help="The time for all of it.")
@pass_session
def doctor(session: Session, trial: bool, timeout: float) -> None:
    """Say what is installed, what the board's store is, how far its clock is off, and what this login may do.

    Exit status 1 if something keeps the board from working.
    """
    from jobboard.operate.doctor import examine, installation

    found = installation()
    if session.uri is not None:
        board = session.closed_board() if trial else session.closed_board(create=False)
        found += examine(board, timeout=timeout, trial=trial)
    elif trial:
        raise click.UsageError("--trial needs a board: --board URI, or JOBBOARD_URI in the environment")
    if session.output.json:
        session.output.data([{"subject": each.subject, "well": each.well, "text": each.text} for each in found])
    else:
        for each in found:
            session.output.say(f"{_MARKS[each.well]:<3}  {each.text}", _STYLES[each.well])
        if session.uri is None:
            session.output.hint("with --board URI, or JOBBOARD_URI in the environment, the store is examined as well")
    if any(each.well is False for each in found):
        raise click.exceptions.Exit(1)


COMMANDS = (doctor,)
