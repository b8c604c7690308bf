"""Commands about one job: show it with its graph, and why it does not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from jobboard.cli.session import Session, command, pass_session
from jobboard.errors import NotFound
from jobboard.graph.folding import folded
from jobboard.graph.model import Graph
from jobboard.operate.finding import find_job
from jobboard.operate.flow import Decode, Flow, decoder, flow_of, flow_view, timeline_of
from jobboard.operate.graph.formats import dot_of, mermaid_of, plain_of, standing_of, tree_of
from jobboard.operate.pasting import commands_by
from jobboard.operate.views import view_of
from jobboard.operate.why import why
from jobboard.operate.why_waiting import why_gone
from jobboard.text import exact_utc, short_duration

if TYPE_CHECKING:
    from jobboard.board import JobBoard
    from jobboard.job import Job

_FORMATS: dict[str, Callable[[Graph], Iterator[str]]] = {"tree": tree_of, "dot": dot_of, "mermaid": mermaid_of}


@command(
    "show",
    "jobboard show 3f2a",
    "jobboard show invoice:4711 --details",
    "jobboard show 3f2a --graph",
    "jobboard show 3f2a --graph --format dot | dot -Tsvg > graph.svg",
)
@click.argument("job")
@click.option("--details", is_flag=True, help="Its details, too, what its steps returned, and what signals brought.")
@click.option("--graph", is_flag=True, help="The jobs that it waits for, and those that wait for it, as a tree.")
@click.option(
    "--format",
    "form",
    type=click.Choice([*_FORMATS, "json"]),
    help="How to write the graph: tree (the default), dot for Graphviz, mermaid, or json, which folds nothing.",
)
@click.option("--no-fold", is_flag=True, help="Each job of the graph by itself, however many there are.")
@pass_session
def show(session: Session, job: str, details: bool, graph: bool, form: str | None, no_fold: bool) -> None:
    """Show a job: its posting, its record, its steps and its history; or the graph that it is a part of.

    A graph is folded where 20 jobs of a name stand beside each other: those of one state are one line, but for those in
    the trash. One of more than 200 jobs is folded as a whole.
    """
    if not graph and (form is not None or no_fold):
        raise click.UsageError("--format and --no-fold are for --graph")
    board = session.board()
    found = find_job(board, job)
    if graph:
        _show_graph(session, board, found, form or "tree", no_fold)
    else:
        _show_job(session, found, flow_of(board, found), decoder(board) if details else None)


def _show_graph(session: Session, board: JobBoard, job: Job, form: str, no_fold: bool) -> None:
    graph, is_plain = board.graph(job), session.output.json or form == "json"
    if is_plain:
        session.output.data(plain_of(graph))
        return
    drawn = graph if no_fold else folded(graph)
    for line in _FORMATS[form](drawn):
        session.output.say(line)
    if form == "tree":
        for line in standing_of(graph):
            session.output.say(line)


def _show_job(session: Session, job: Job, flow: Flow, decode: Decode | None) -> None:
    """Show a job.

    :param decode: reads its steps and signals; None: nothing of what it carries is shown.
    """
    view = view_of(job, with_details=decode is not None)
    if session.output.json:
        session.output.data(view | flow_view(flow, decode))
        return
    history = [line | {"at": exact_utc(line["at"])} for line in view.pop("history")]
    view["parents"] = None if flow.parents is None else str(flow.parents)
    session.output.record(view)
    if lines := timeline_of(flow, decode):
        print()
        lines = [
            line | {"at": exact_utc(line["at"]), "later by": line["after"] and short_duration(line["after"])}
            for line in lines
        ]
        columns = ("at", "later by", "what", "name") + ("value",) * (decode is not None)
        session.output.table(columns, lines, empty="")
        if flow.has_more_steps:
            session.output.warn(f"there are more than these {len(flow.steps):,} steps")
    print()
    session.output.table(("at", "kind", "who", "token", "reason"), history, empty="no history")


@command("why", "jobboard why 3f2a")
@click.argument("job")
@pass_session
def why_command(session: Session, job: str) -> None:
    """Say why a job is not running."""
    board = session.board()
    try:
        found = find_job(board, job)
    except NotFound as error:
        known = why_gone(board, job)
        raise (error if known is None else NotFound(f"{error}: {known}")) from None
    reasons = [replace(reason, cure=commands_by(session.program, reason.cure)) for reason in why(board, found)]
    if session.output.json:
        listed = [{"kind": reason.kind, "text": reason.text} for reason in reasons]
        which = {"uuid": found.uuid, "name": found.name, "key": found.key, "state": found.record.state.value}
        session.output.data(which | {"reasons": listed})
    for reason in reasons:
        session.output.say(reason.text)


COMMANDS = (show, why_command)
