"""A graph as text: a tree for terminals, DOT, Mermaid, and plain data. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jobboard.graph.model import Edge, Graph, Node, links_of
from jobboard.graph.texts import end_of, label_of, state_of, summary_of
from jobboard.text import in_one_line

#: How many jobs that failed are named.
MAX_FAILED = 10
#: The colours of nodes, for DOT and Mermaid.
_COLOURS = {
    "TRASHED": "#ffc9c9", "GONE": "#dee2e6", "CANCELLED": "#dee2e6", "BLOCKED": "#ffec99", "DELAYED": "#fff3bf",
    "CLAIMED": "#a5d8ff", "UNCLAIMED": "#e7f5ff", "COMPLETE": "#b2f2bb",
}  # fmt: skip


def standing_of(graph: Graph) -> Iterator[str]:
    """Yield how a graph that is not folded stands: its states, whether it is over, and what failed and why."""
    yield summary_of(graph)
    if graph.is_whole:
        yield end_of(graph)
    failed = graph.failed
    for node in failed[:MAX_FAILED]:
        yield f"{node.state.lower()}: {label_of(node)}: {in_one_line(node.reason or 'no reason is given')}"
    if len(failed) > MAX_FAILED:
        yield f"and {len(failed) - MAX_FAILED:,} more that failed"


def tree_of(graph: Graph) -> Iterator[str]:
    """Yield the lines of a tree, parents above their children; below a node that was shown before stands nothing.

    Roots are the jobs without parents. The job that the graph was read for has a star.
    """
    links = links_of(graph.nodes, [(edge.parent, edge.child) for edge in graph.edges if edge.parent != edge.child])
    seen = set[str]()
    starts = [node for node in graph.nodes if not links.parents[node]]
    for start in [*starts, *graph.nodes]:
        if start not in seen:
            yield from _branch(graph, start, links.children, seen)


def _branch(graph: Graph, start: str, children: dict[str, list[str]], seen: set[str]) -> Iterator[str]:
    """Yield a node and what is below, without recursion: a graph may be thousands of levels deep."""
    left = [(start, "", "")]
    # Each turn passes a node, or an edge to one that was seen.
    while left:
        id, before, indent = left.pop()
        was_seen = id in seen
        seen.add(id)
        node = graph.nodes[id]
        star = "* " if id == graph.root else ""
        below = children[id]
        more = " (see above)" if was_seen and below else ""
        yield f"{before}{star}{label_of(node)}  {state_of(node)}{more}"
        if not was_seen:
            last = len(below) - 1
            nodes = [
                (child, f"{indent}{'└─ ' if index == last else '├─ '}", f"{indent}{'   ' if index == last else '│  '}")
                for index, child in enumerate(below)
            ]
            left += reversed(nodes)


def dot_of(graph: Graph) -> Iterator[str]:
    """Yield the lines of a graph for Graphviz."""
    numbers = {id: number for number, id in enumerate(graph.nodes)}
    yield "digraph jobs {"
    yield '  rankdir=LR; node [shape=box, style="rounded,filled", fontname="sans-serif"];'
    for id, node in graph.nodes.items():
        text = f"{_dot_text(label_of(node))}\\n{_dot_text(state_of(node))}"
        bold = ", penwidth=3" if id == graph.root else ""
        yield f'  n{numbers[id]} [label="{text}", fillcolor="{_COLOURS[node.state]}"{bold}];'
    for edge in graph.edges:
        many = f' [label="{edge.number}"]' if edge.number > 1 else ""
        yield f"  n{numbers[edge.parent]} -> n{numbers[edge.child]}{many};"
    yield "}"


def _dot_text(text: str) -> str:
    return _in_line(text).replace("\\", "\\\\").replace('"', '\\"')


def mermaid_of(graph: Graph) -> Iterator[str]:
    """Yield the lines of a flowchart for Mermaid, as GitHub and GitLab draw it; names are text, and no markup."""
    numbers = {id: number for number, id in enumerate(graph.nodes)}
    yield "flowchart LR"
    for id, node in graph.nodes.items():
        text = f"{_mermaid_text(label_of(node))}<br>{_mermaid_text(state_of(node))}"
        yield f'  n{numbers[id]}["{text}"]:::{node.state.lower()}'
    for edge in graph.edges:
        many = f"|{edge.number}|" if edge.number > 1 else ""
        yield f"  n{numbers[edge.parent]} -->{many} n{numbers[edge.child]}"
    for state in graph.states():
        yield f"  classDef {state.lower()} fill:{_COLOURS[state]},color:#000"
    yield f"  style n{numbers[graph.root]} stroke-width:4px"


def _mermaid_text(text: str) -> str:
    """Write all but plain characters by their numbers, so that no name is taken for syntax or HTML."""
    return "".join(one if one.isalnum() or one in " ,.-_:/()" else f"#{ord(one)};" for one in _in_line(text))


def _in_line(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text)


def plain_of(graph: Graph) -> dict[str, Any]:
    """Return a graph as plain data; ``folded`` says whether a node may stand for several jobs."""
    return {
        "uuid": graph.root,
        "jobs": graph.number,
        "states": graph.states(),
        "whole": graph.is_whole,
        "folded": graph.is_folded,
        "over": graph.is_over,
        "created_on": graph.created_on,
        "ended_on": graph.ended_on,
        "nodes": [_plain_node(node) for node in graph.nodes.values()],
        "edges": [_plain_edge(edge) for edge in graph.edges],
    }


def _plain_node(node: Node) -> dict[str, Any]:
    return {
        "uuid": node.uuid, "name": node.name, "key": node.key, "state": node.state, "jobs": node.number,
        "waits_for": node.waits_for, "held": node.is_held, "reason": node.reason,
        "last_error": node.last_error, "created_on": node.created_on, "due_on": node.due_on,
        "last_modified": node.last_modified, "seconds": node.seconds, "attempts": node.attempts, "owner": node.owner,
        "result": node.result,
    }  # fmt: skip


def _plain_edge(edge: Edge) -> dict[str, Any]:
    return {"parent": edge.parent, "child": edge.child, "edges": edge.number}
