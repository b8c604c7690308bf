"""Commands that look at a board: ls, export, owners, entities, stats, watch."""

from __future__ import annotations

import itertools
import queue
import time
from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING, Any

import click

from jobboard.cli.output import shown
from jobboard.cli.selecting import selected, selectors
from jobboard.cli.session import Session, command, is_given, pass_session, warn_of_rest
from jobboard.cli.values import SPAN
from jobboard.events import FREQUENT, EventKind, JobEvent
from jobboard.operate.claimed_since import claimed_since
from jobboard.operate.finding import ended_with_key, find_job, how_it_ended
from jobboard.operate.selecting import Selection
from jobboard.operate.views import (
    entity_view,
    event_view,
    export_of,
    owners,
    paused_texts,
    row_of,
    stats,
    view_of,
)
from jobboard.states import LIVE, JobState
from jobboard.stats import COUNTED

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.job import Job

_JOB_COLUMNS = ("uuid", "name", "state", "priority", "key", "attempts", "owner", "created_on", "waits_for")
#: Of how many claimed jobs the histories are read, one request each, to say since when they are claimed.
_MAX_SINCE = 100
#: What ``--columns`` may name.
COLUMNS = (
    *_JOB_COLUMNS, "sequence", "run_at", "expires_at", "last_modified", "max_attempts", "token", "reason", "last_error",
    "cancel_asked", "progress", "schedule_id", "fire_time", "book_name",
    "lane",
)  # fmt: skip
_METADATA_COLUMNS = ("executor", "running", "concurrency", "stuck", "healthy", "quiet", "names")


@command(
    "ls",
    "jobboard ls",
    "jobboard ls --state unclaimed --job-name resize --limit 10",
    "jobboard ls --columns uuid,name,run_at,last_error --state delayed",
    "jobboard ls --state claimed --owner worker@host-7 --older-than 1h",
    "jobboard ls --state complete --json | jq -r '.[].uuid'",
)
@click.option(
    "--columns",
    metavar="NAMES",
    callback=lambda _context, _parameter, text: None if text is None else columns_of(text),
    help=f"What to show of each job, separated by commas, of {', '.join(COLUMNS)}.",
)
@selectors(among=list(JobState), limit=100)
@pass_session
def ls(session: Session, selection: Selection, columns: tuple[str, ...] | None) -> None:
    """List jobs in the order in which they are claimed; without --state those on the board.

    Of the first 100 with --state claimed it says since when they are claimed.
    """
    board, most = session.board(), selection.limit
    chosen = selection if is_given("states") else replace(selection, states=LIVE)
    jobs = selected(session, replace(chosen, limit=most and most + 1), board)
    found = list(itertools.islice(jobs, most))
    rows = [row_of(job) for job in found] if columns is None else [_fields_of(job, columns) for job in found]
    listed = columns or _JOB_COLUMNS
    if columns is None and chosen.states == {JobState.CLAIMED}:
        listed = (*_JOB_COLUMNS, "claimed_on")
        since = claimed_since(board, [job.uuid for job in found[:_MAX_SINCE]])
        for row in rows:
            row["claimed_on"] = since.get(row["uuid"])
    session.output.table(listed, rows, empty="no jobs", droppable=columns is None)
    if not rows and selection.key is not None and not is_given("states"):
        _tell_ended(session, board, selection)
    warn_of_rest(session, jobs, len(found))


def _tell_ended(session: Session, board: JobBoard, selection: Selection) -> None:
    """Say which jobs that ended had the key that no job on the board has."""
    ended = ended_with_key(board, selection)
    has = f"no job on the board that fits has the key {selection.key!r}"
    session.output.warn(f"{has}; these ended, and are kept:" if ended else f"{has}, and none that ended and is kept")
    for job in ended:
        session.output.warn(f"  {job.uuid} {how_it_ended(job)}")


def columns_of(text: str) -> tuple[str, ...]:
    """Read ``--columns``."""
    columns = tuple(part.strip() for part in text.split(","))
    for column in columns:
        if column not in COLUMNS:
            raise click.UsageError(f"--columns: there is no {column!r}; there are {', '.join(COLUMNS)}")
    return columns


def _fields_of(job: Job, columns: tuple[str, ...]) -> dict[str, Any]:
    view = view_of(job)
    return {column: view[column] for column in columns}


@command(
    "export",
    "jobboard export --state trashed --errors > trash.jsonl",
    "jobboard export --details --job-name invoice | jq -r .details.number",
    "jobboard export --details > jobs.jsonl",
)
@click.option("--details", is_flag=True, help="Also what the jobs carry: details, checkpoint, progress and result.")
@click.option("--errors", is_flag=True, help="Also their last errors, with tracebacks.")
@selectors(among=list(JobState))
@pass_session
def export(session: Session, selection: Selection, details: bool, errors: bool) -> None:
    """Write jobs as JSON, one a line, in the order of claims; without --state those on the board."""
    chosen = selection if is_given("states") else replace(selection, states=LIVE)
    for job in selected(session, chosen, session.board()):
        session.output.data(export_of(job, with_details=details, with_errors=errors))


@command("owners", "jobboard owners")
@pass_session
def owners_command(session: Session) -> None:
    """Show who holds how many jobs."""
    columns = ("owner", "jobs", "names", "oldest", "next_expiry", "alive", "stuck")
    session.output.table(columns, owners(session.board()), empty="nothing is claimed")


@command("entities", "jobboard entities")
@pass_session
def entities(session: Session) -> None:
    """Show the conductors and other participants, alive or not."""
    columns = ("kind", "name", "alive", "last_seen", *_METADATA_COLUMNS)
    rows = [entity_view(entity) for entity in session.board().entities()]
    session.output.table(columns, rows, empty="nobody takes part")


@command("stats", "jobboard stats")
@pass_session
def stats_command(session: Session) -> None:
    """Count the jobs by state and name, and say what is paused."""
    view = stats(session.board())
    if session.output.json:
        session.output.data(view)
        return
    rows = [{"name": name, **numbers} for name, numbers in view.pop("names").items()]
    states = [state for state in COUNTED if state != "blocked" or view[state]]
    session.output.table(("name", *states), [*rows, {"name": "(all)", **view}], empty="")
    if view["oldest_unclaimed"] is not None:
        session.output.hint(f"the oldest unclaimed job is {view['oldest_unclaimed']:.0f} s old")
    if paused := paused_texts(view["paused"]):
        session.output.hint(f"paused: {', '.join(paused)}")


@command(
    "watch",
    "jobboard watch",
    "jobboard watch --kind consumed --kind trashed --json",
    "jobboard watch --job-name resize --kind trashed",
    "jobboard watch --job 3f2a --kind extended",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice([kind.value.lower() for kind in EventKind]),
    help="Only events of this kind; may be repeated. By default all but extended and checkpointed.",
)
@click.option("--job-name", "names", multiple=True, help="Only events about jobs of this name; may be repeated.")
@click.option("--job", help="Only events about this job.")
@click.option("--for", "seconds", type=SPAN, help="Stop after this time; by default at Ctrl-C.")
@pass_session
def watch(
    session: Session, kinds: tuple[str, ...], names: tuple[str, ...], job: str | None, seconds: float | None
) -> None:
    """Show the events of the board as they happen."""
    events: queue.SimpleQueue[JobEvent] = queue.SimpleQueue()
    board = session.board()
    uuid = None if job is None else find_job(board, job).uuid
    board.subscribe(events.put, [EventKind(kind.upper()) for kind in kinds] or set(EventKind) - FREQUENT)
    deadline = None if seconds is None else time.monotonic() + seconds
    session.output.hint(f"watching board {session.name!r}; Ctrl-C ends it")
    while deadline is None or time.monotonic() < deadline:
        try:
            event = events.get(timeout=0.2)
        except queue.Empty:
            continue
        if uuid in (None, event.uuid) and (not names or event.name in names):
            _print_event(session, event_view(event))


def _print_event(session: Session, view: dict[str, Any]) -> None:
    if session.output.json:
        session.output.data(view)
        return
    parts = [
        f"{view['at'].astimezone(UTC).time().isoformat('milliseconds')} UTC",
        *(view[part] for part in ("kind", "name", "uuid", "who", "reason")),
    ]
    print("  ".join(shown(part) for part in parts if part is not None), flush=True)


COMMANDS = (ls, export, owners_command, entities, stats_command, watch)
