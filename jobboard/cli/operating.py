"""The operators' commands: release, trash, trashed, restore, purge, pause, resume, check."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from jobboard.cli.output import count
from jobboard.cli.session import Session, command, confirm, options, pass_session
from jobboard.cli.values import SPAN
from jobboard.operate.finding import find_job
from jobboard.operate.trash import purge_all, restore_all, select_trashed
from jobboard.operate.views import paused_view, row_of

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.job import Job


def _me() -> str:
    """Return the name that the history gives an operator."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "operator"
    return f"{user}@{socket.gethostname()}"


#: What selects trashed jobs: one, some by a filter, or all.
_selection = options(
    click.argument("job", required=False),
    click.option("--all", "everything", is_flag=True, help="All of the trash."),
    click.option("--job-name", "name", help="Those of this name."),
    click.option("--reason", help="Those whose reason has this text in it."),
    click.option("--older-than", type=SPAN, help="Those trashed longer ago than this."),
    click.option("--yes", is_flag=True, help="Don't ask."),
)


@command("release", "jobboard release 3f2a --reason 'its host is gone'")
@click.argument("job")
@click.option("--reason", default="released by an operator", show_default=True)
@pass_session
def release(session: Session, job: str, reason: str) -> None:
    """End the claim of a job: it is claimable again at once, and its owner can't end it any more."""
    board = session.board()
    found = find_job(board, job)
    board.release(found, reason=f"{reason} ({_me()})")
    _tell(session, board, found, "is released")


@command("trash", "jobboard trash 3f2a --reason 'its input is broken'")
@click.argument("job")
@click.option("--reason", default="trashed by an operator", show_default=True)
@pass_session
def trash(session: Session, job: str, reason: str) -> None:
    """Put a job into the trash, whoever holds it."""
    board = session.board()
    found = find_job(board, job)
    board.trash(found, _me(), reason=reason, force=True)
    _tell(session, board, found, "is in the trash")


@command("trashed", "jobboard trashed", "jobboard trashed --job-name resize")
@click.option("--job-name", "name", help="Only those of this name.")
@pass_session
def trashed(session: Session, name: str | None) -> None:
    """List the trash."""
    jobs = select_trashed(session.board(), name=name)
    rows = [row_of(job) | {"trashed_on": job.record.last_modified, "reason": job.record.reason} for job in jobs]
    session.output.table(("uuid", "name", "attempts", "trashed_on", "reason"), rows, empty="the trash is empty")


@command(
    "restore",
    "jobboard restore 3f2a",
    "jobboard restore --job-name resize --reason 'disk full' --yes",
    "jobboard restore --all --yes",
)
@_selection
@pass_session
def restore(session: Session, /, yes: bool, **which: Any) -> None:
    """Bring jobs back from the trash, with no attempts used; asks first if it is not one JOB."""
    _for_selected(session, "restore", restore_all, not yes and which["job"] is None, **which)


@command("purge", "jobboard purge 3f2a --yes", "jobboard purge --older-than 604800 --yes")
@_selection
@pass_session
def purge(session: Session, /, yes: bool, **which: Any) -> None:
    """Delete jobs from the trash for good; asks first."""
    _for_selected(session, "purge", purge_all, not yes, **which)


@command("pause", "jobboard pause resize", "jobboard pause")
@click.argument("name", required=False)
@pass_session
def pause(session: Session, name: str | None) -> None:
    """Let no more jobs of this name be claimed; without a name, no jobs at all."""
    board = session.board(create=True)
    board.pause(name)
    _tell_paused(session, board)


@command("resume", "jobboard resume resize", "jobboard resume")
@click.argument("name", required=False)
@pass_session
def resume(session: Session, name: str | None) -> None:
    """Undo a pause of this name; without one, that of the whole board."""
    board = session.board()
    board.resume(name)
    _tell_paused(session, board)


@command("check", "jobboard check", "jobboard check --repair")
@click.option("--repair", is_flag=True, help="Repair what is found.")
@pass_session
def check(session: Session, repair: bool) -> None:
    """Look for records that contradict each other; exit status 1 if any are left."""
    findings = session.board().audit(repair=repair)
    rows = [{"uuid": found.uuid, "problem": found.problem, "repaired": found.repaired} for found in findings]
    if rows or session.output.json:
        session.output.table(("uuid", "problem", "repaired"), rows, empty="")
    else:
        session.output.say("all records agree")
    if any(not found.repaired for found in findings):
        raise click.exceptions.Exit(1)


@command(
    "migrate",
    "jobboard migrate --board postgresql://owner@db.example.org/app",
    "jobboard migrate --board 'mysql://owner@db.example.org/app?prefix=queue_' --json",
)
@pass_session
def migrate(session: Session) -> None:
    """Create the tables of a board in an SQL database, or bring them to this jobboard's version.

    Boards do so by themselves when they are opened, unless their URI says migrate=false, so that they need no right
    to make tables. Changes nothing that is up to date, and refuses what a newer jobboard has made.
    """
    board = session.closed_board()
    migration = board.migrate()
    before = "there were no tables" if migration.found is None else f"it was {migration.found}"
    text = ", as it was" if migration.found == migration.now else f"; {before}"
    data = {"store": board.store, "found": migration.found, "now": migration.now}
    session.output.report(data, f"the schema is {migration.now}{text}")


def _tell(session: Session, board: JobBoard, job: Job, what: str) -> None:
    if session.output.json:
        session.output.data(row_of(board.get(job.uuid)))
    session.output.say(f"{job.uuid} {what}")


def _tell_paused(session: Session, board: JobBoard) -> None:
    paused = paused_view(board.paused())
    names = (["the whole board"] if paused["board"] else []) + paused["names"]
    session.output.report(paused, f"paused: {', '.join(names)}" if names else "nothing is paused")


def _for_selected(
    session: Session,
    verb: str,
    act: Callable[..., tuple[int, list[str]]],
    ask: bool,
    *,
    job: str | None,
    everything: bool,
    **filters: Any,
) -> None:
    is_filtered = any(value is not None for value in filters.values())
    if (job is not None) + everything + is_filtered != 1:
        raise click.UsageError("name one JOB, or a filter, or --all")
    board, output = session.board(), session.output
    jobs = [find_job(board, job)] if job is not None else list(select_trashed(board, **filters))
    if jobs and ask and not confirm(f"{verb} {count(len(jobs), 'job')}?"):
        raise click.ClickException("nothing was changed")
    with output.progress(verb, len(jobs)) as step:
        done, refused = act(board, jobs, step)
    output.report({f"{verb}d": done, "refused": refused}, f"{done} {verb}d")
    for line in refused:
        output.error(line)
    if refused:
        raise click.exceptions.Exit(1)


COMMANDS = (release, trash, trashed, restore, purge, pause, resume, check, migrate)
