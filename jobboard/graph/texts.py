"""A graph in words: its jobs in lines, and how it stands. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from jobboard import naming
from jobboard.backends.reasons import has_not_failed
from jobboard.graph.folding import folded
from jobboard.graph.layering import layers_of
from jobboard.graph.model import COMPLETE, TRASHED, Graph, Node
from jobboard.states import JobState
from jobboard.text import in_one_line, short_duration, utc

#: The part of a uuid that is shown: commands accept the end of one.
_SHOWN = 8
#: How a job is named of which only its uuid is known.
_UNNAMED = "job"
#: States that no failure has led to: a reason is of an attempt before.
_WELL = (JobState.CLAIMED.value, COMPLETE)


def label_of(node: Node) -> str:
    """Return a node in a few words: ``resize 3f2a77c1``, ``report:2026-11-29 3f2a77c1``, or ``9,998 x resize``."""
    name = naming.label_of(node.name or _UNNAMED, node.key)
    return f"{node.number:,} x {name}" if node.number > 1 else f"{name} {node.uuid[-_SHOWN:]}"


def state_of(node: Node) -> str:
    """Return how a node stands, how long it took from when it could be claimed, what blocks it, and its attempts."""
    text = node.state.lower()
    if node.seconds is not None:
        # No running time: when a claim began only histories say, which cost a request for each job.
        text += f" {short_duration(node.seconds)} after it could be claimed"
    elif node.waits_for:
        text += f", waits for {node.waits_for}"
    return f"{text}, {node.attempts} attempts" if node.attempts > 1 else text


def summary_of(graph: Graph) -> str:
    """Return how many jobs there are of which state: ``12 jobs: 1 trashed, 11 complete``."""
    states = ", ".join(f"{number:,} {state.lower()}" for state, number in graph.states().items())
    number = f"{graph.number:,} job{'s' * (graph.number != 1)}"
    return f"{number}: {states}" if graph.is_whole else f"the nearest {number}, there are more: {states}"


def end_of(graph: Graph) -> str:
    """Return whether a graph is over, or stands still, since when, and how many of its jobs are held."""
    held = len(graph.held)
    waiting = f"{held:,} job{'s wait' if held > 1 else ' waits'} for what is in the trash"
    if not graph.is_over:
        posted = "" if graph.created_on is None else f"; posted {utc(graph.created_on)}"
        return f"not over{posted}{f'; {waiting}' if held else ''}"
    since = ""
    if graph.created_on is not None and graph.ended_on is not None:
        took = short_duration((graph.ended_on - graph.created_on).total_seconds())
        since = f" since {utc(graph.ended_on)}, {took} after it was posted"
    return f"stands still{since}: {waiting}" if held else f"over{since}"


def text_of(graph: Graph) -> Iterator[str]:
    """Yield a line for each job, parents before their children, and then how the graph stands.

    Where 20 jobs of a name stand beside each other, those of one state are one line, but for those in the trash. Of
    more than 200 jobs, those of one name and state are.
    """
    drawn = folded(graph)
    layers = layers_of(list(drawn.nodes), [(edge.parent, edge.child) for edge in drawn.edges])
    for uuid in sorted(layers, key=layers.__getitem__):
        yield _line_of(drawn, drawn.nodes[uuid])
    yield summary_of(graph)
    if graph.is_whole:
        yield end_of(graph)


def _line_of(graph: Graph, node: Node) -> str:
    line = f"{label_of(node)}  {state_of(node)}{_failure_of(node)}"
    held = sum(other.number for other in graph.held_by(node.uuid)) if node.state == TRASHED else 0
    return f"{line} ({held:,} wait{'s' * (held == 1)} for it)" if held else line


def _failure_of(node: Node) -> str:
    """Return why a node stands as it does, if it failed; of one that runs or is complete, how it failed before."""
    if node.reason and not has_not_failed(node.reason) and node.state not in _WELL:
        return f": {in_one_line(node.reason)}"
    return f"; failed before: {in_one_line(node.last_error)}" if node.last_error else ""
