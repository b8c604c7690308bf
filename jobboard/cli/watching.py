"""Commands that look at a board: ls, show, why, owners, entities, stats, watch."""

from __future__ import annotations

import itertools
import queue
import time
from dataclasses import replace
from typing import Any

import click

from jobboard.cli.output import shown
from jobboard.cli.selecting import selectors
from jobboard.cli.session import Session, command, is_given, pass_session
from jobboard.cli.values import SPAN
from jobboard.events import EventKind, JobEvent
from jobboard.operate.finding import find_job
from jobboard.operate.selecting import Selection
from jobboard.operate.views import entity_view, event_view, owners, row_of, stats, view_of
from jobboard.operate.why import why
from jobboard.states import LIVE, JobState

_JOB_COLUMNS = ("uuid", "name", "state", "priority", "key", "attempts", "owner", "created_on")
_METADATA_COLUMNS = ("executor", "running", "concurrency", "stuck", "healthy", "names")


@command(
    "ls",
    "jobboard ls",
    "jobboard ls --state unclaimed --job-name resize --limit 10",
    "jobboard ls --state claimed --owner worker@host-7 --older-than 1h",
    "jobboard ls --state complete --json | jq -r '.[].uuid'",
)
@selectors(among=list(JobState), limit=100)
@pass_session
def ls(session: Session, selection: Selection) -> None:
    """List jobs in the order in which they are claimed; without --state those on the board."""
    board, most = session.board(), selection.limit
    chosen = selection if is_given("states") else replace(selection, states=LIVE)
    jobs = replace(chosen, limit=most and most + 1).jobs(board)
    rows = [row_of(job) for job in itertools.islice(jobs, most)]
    session.output.table(_JOB_COLUMNS, rows, empty="no jobs")
    if not is_given("limit") and next(jobs, None) is not None:
        session.output.warn(f"there are more than these {most}; --limit 0 lists all")


@command("show", "jobboard show 3f2a", "jobboard show invoice:4711 --details")
@click.argument("job")
@click.option("--details", is_flag=True, help="Its details, too.")
@pass_session
def show(session: Session, job: str, details: bool) -> None:
    """Show a job: its posting, its record and its history."""
    view = view_of(find_job(session.board(), job), with_details=details)
    if session.output.json:
        session.output.data(view)
        return
    history = view.pop("history")
    session.output.record(view)
    print()
    session.output.table(("at", "kind", "who", "token", "reason"), history, empty="no history")


@command("why", "jobboard why 3f2a")
@click.argument("job")
@pass_session
def why_command(session: Session, job: str) -> None:
    """Say why a job is not running."""
    board = session.board()
    found = find_job(board, job)
    reasons = why(board, found)
    if session.output.json:
        listed = [{"kind": reason.kind, "text": reason.text} for reason in reasons]
        session.output.data({"uuid": found.uuid, "state": found.record.state.value, "reasons": listed})
    for reason in reasons:
        session.output.say(reason.text)


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
    session.output.table(
        ("name", "delayed", "unclaimed", "claimed", "trashed"), [*rows, {"name": "(all)", **view}], empty=""
    )
    if view["oldest_unclaimed"] is not None:
        session.output.hint(f"the oldest unclaimed job is {view['oldest_unclaimed']:.0f} s old")
    paused = (["the whole board"] if view["paused"]["board"] else []) + view["paused"]["names"]
    if paused:
        session.output.hint(f"paused: {', '.join(paused)}")


@command("watch", "jobboard watch", "jobboard watch --kind consumed --kind trashed --json")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice([kind.value.lower() for kind in EventKind]),
    help="Only events of this kind; may be repeated.",
)
@click.option("--for", "seconds", type=SPAN, help="Stop after this time; by default at Ctrl-C.")
@pass_session
def watch(session: Session, kinds: tuple[str, ...], seconds: float | None) -> None:
    """Show the events of the board as they happen."""
    events: queue.SimpleQueue[JobEvent] = queue.SimpleQueue()
    wanted = [EventKind(kind.upper()) for kind in kinds] or None
    session.board().subscribe(events.put, wanted)
    deadline = None if seconds is None else time.monotonic() + seconds
    session.output.hint(f"watching board {session.name!r}; Ctrl-C ends it")
    while deadline is None or time.monotonic() < deadline:
        try:
            event = events.get(timeout=0.2)
        except queue.Empty:
            continue
        _print_event(session, event_view(event))


def _print_event(session: Session, view: dict[str, Any]) -> None:
    if session.output.json:
        session.output.data(view)
        return
    parts = [
        view["at"].strftime("%H:%M:%S.%f")[:-3],
        *(view[part] for part in ("kind", "name", "uuid", "who", "reason")),
    ]
    print("  ".join(shown(part) for part in parts if part is not None), flush=True)


COMMANDS = (ls, show, why_command, owners_command, entities, stats_command, watch)
