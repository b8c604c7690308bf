"""The command that posts exported jobs: import."""

from __future__ import annotations

from collections.abc import Sequence

import click

from jobboard.cli.output import count
from jobboard.cli.selecting import tell_refused
from jobboard.cli.session import Session, command, pass_session
from jobboard.cli.values import read_text
from jobboard.operate.importing import exported_jobs, import_jobs
from jobboard.states import LIVE, JobState

_STATES = [state.value.lower() for state in JobState if state in {*LIVE, JobState.TRASHED}]


@command(
    "import",
    "jobboard import jobs.jsonl --dry-run",
    "jobboard export --details --board orders | jobboard import - --board redis://localhost",
    "jobboard import trash.jsonl --state trashed",
)
@click.argument("file")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(_STATES),
    help="Only jobs that were in this state; may be repeated. By default those that were on the board.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be posted.")
@pass_session
def import_(session: Session, /, file: str, states: Sequence[str], dry_run: bool) -> None:
    """Post the jobs of FILE (- for standard input), which export --details wrote, under their uuids, with no attempts.

    A job that the board has already, or remembers, is left as it is: the same file may be imported again. Stop the
    programs of the board that the jobs are from, or they run there as well.
    """
    text = read_text("-" if file == "-" else f"@{file}")
    found = exported_jobs(text, {JobState(state.upper()) for state in states} or LIVE)
    board = session.board(create=not dry_run)
    with session.output.progress("importing", len(found.postings)) as step:
        outcome = import_jobs(board, found.postings, step, dry_run=dry_run)
    refused = found.refused + outcome.refused
    done = "importable" if dry_run else "imported"
    told = f"{count(outcome.posted, 'job')} {done}"
    told += f"; {outcome.there} known to the board already" if outcome.there else ""
    told += f"; {found.others} in other states left out" if found.others else ""
    data = {done: outcome.posted, "there": outcome.there, "left_out": found.others, "refused": refused}
    session.output.report(data, told)
    tell_refused(session, refused)


COMMANDS = (import_,)
