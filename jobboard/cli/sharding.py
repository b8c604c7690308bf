"""The command shards and its group."""

from __future__ import annotations

import click

from jobboard.cli.session import Session, command, group, pass_session
from jobboard.cli.values import SPAN
from jobboard.operate.reshaping import add_shard, reshaping_of
from jobboard.operate.views import shards
from jobboard.stats import COUNTED

_number = click.argument("number", type=click.IntRange(0))


def _tell(session: Session, text: str) -> None:
    if not session.output.json:
        session.output.warn(text)


@command("add", "jobboard shards add postgresql://app@db-c/jobs", "jobboard shards add sqlite:////srv/c.db --json")
@click.argument("uri")
@pass_session
def add(session: Session, uri: str) -> None:
    """Make the store at URI a shard; it takes jobs without a key or lane.

    Then name it in jobboard.toml, behind the others; restart conductors first, then what posts; then open it.
    """
    number = add_shard(session.board(), uri, lambda text: _tell(session, text))
    text = f"shard {number} is added; name its store in all programs, restart them, then: jobboard shards open {number}"
    session.output.report({"shard": number, "state": "added"}, text)


@command("open", "jobboard shards open 2")
@_number
@pass_session
def open_(session: Session, number: int) -> None:
    """Let keys and lanes go to a shard that was added; or end the draining of one."""
    reshaping_of(session.board(), lambda text: _tell(session, text)).open(number)
    session.output.report({"shard": number, "state": "open"}, f"shard {number} is open")


@command("drain", "jobboard shards drain 1", "jobboard shards drain 1 --for 1h", "jobboard shards drain 1 --for 0s")
@_number
@click.option("--for", "seconds", type=SPAN, default="1h", show_default=True, help="For how long it waits at most.")
@pass_session
def drain(session: Session, number: int, seconds: float) -> None:
    """Let a shard run empty, and wait for that; exit status 2 if something is left.

    Nothing new goes there; its jobs are claimed and end as ever. May be interrupted, and repeated.
    """
    left = reshaping_of(session.board(), lambda text: _tell(session, text)).drain(number, seconds)
    text = f"shard {number} still has {'; '.join(left)}" if left else f"shard {number} is empty"
    session.output.report({"shard": number, "state": "draining", "left": left}, text)
    if left:
        raise click.exceptions.Exit(2)


@command("remove", "jobboard shards remove 1")
@_number
@pass_session
def remove(session: Session, number: int) -> None:
    """Let the board forget a drained shard; refused while anything is left there."""
    reshaping_of(session.board(), lambda text: _tell(session, text)).remove(number)
    text = f"shard {number} is removed; take its store out of the lists of all programs"
    session.output.report({"shard": number, "state": "gone"}, text)


@group(
    "shards",
    [add, open_, drain, remove],
    "jobboard shards",
    "jobboard shards --json | jq '.[] | select(.problem)'",
    "jobboard shards add postgresql://app@db-c/jobs",
    "jobboard shards drain 1 && jobboard shards remove 1",
)
@pass_session
def shards_command(session: Session) -> None:
    """Count the jobs of each shard, and say which shards do not answer; exit status 2 if there are any."""
    rows = shards(session.board())
    problems = [row["problem"] for row in rows if row["problem"] is not None]
    session.output.table(("shard", "state", *COUNTED), rows, empty="this board is on one store: it has no shards")
    for problem in problems:
        session.output.hint(problem)
    if problems:
        raise click.exceptions.Exit(2)


COMMANDS = (shards_command,)
