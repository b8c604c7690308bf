"""Folds what is alike in a graph that is too large to look at. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace

from jobboard.graph.layering import layers_of
from jobboard.graph.model import STATES, TRASHED, Edge, Graph, Node

#: A graph of more jobs than this is folded.
MAX_UNFOLDED = 200
#: From so many jobs of one name on, as far down in the graph, these are folded in a smaller one, too.
MANY = 20
#: The name of a node that stands for jobs of several names.
OTHERS = "(other names)"


def folded(graph: Graph, most: int = MAX_UNFOLDED) -> Graph:
    """Return a graph of at most ``most`` nodes; the same one if there is nothing to fold.

    Jobs of one name and state are drawn as one: where :data:`MANY` of a name are as far down in the graph, such as the
    parts of a fan-out, but for those in the trash. In a graph of more than ``most`` jobs it is all that are as far
    down, or all of them if that is not enough. If there are still more, those of the names with the fewest jobs are one
    node for each state. The job that the graph was read for is never folded.
    """
    layers = layers_of(list(graph.nodes), [(edge.parent, edge.child) for edge in graph.edges])
    if len(graph.nodes) <= most:
        return _with_many_folded(graph, layers)
    smaller = _fold(graph, lambda node: (layers[node.uuid], node.name, node.state))
    if len(smaller.nodes) > most:
        smaller = _fold(graph, lambda node: (node.name, node.state))
    if len(smaller.nodes) > most:
        kept = _largest(graph, most - 1 - len(STATES))
        smaller = _fold(graph, lambda node: (_name(node, kept), node.state))
    return smaller


def _with_many_folded(graph: Graph, layers: Mapping[str, int]) -> Graph:
    count = Counter((layers[node.uuid], node.name) for node in graph.nodes.values())
    if max(count.values(), default=0) < MANY:
        return graph

    def group_of(node: Node) -> tuple[Hashable, ...]:
        layer = layers[node.uuid]
        is_alone = node.state == TRASHED or count[(layer, node.name)] < MANY
        return (node.uuid if is_alone else layer, node.name, node.state)

    return _fold(graph, group_of)


def _largest(graph: Graph, most: int) -> set[tuple[str, str]]:
    """Return the names and states with most jobs."""
    count = Counter[tuple[str, str]]()
    for node in graph.nodes.values():
        count[(node.name, node.state)] += node.number
    return {pair for pair, _ in count.most_common(most)}


def _name(node: Node, kept: set[tuple[str, str]]) -> str:
    return node.name if (node.name, node.state) in kept else OTHERS


def _together(some: Node, one: Node) -> Node:
    """Return a node that stands for both; what only a single job has goes."""
    waits_for = some.waits_for if some.waits_for == one.waits_for else None
    is_held, number = some.is_held and one.is_held, some.number + one.number
    return Node(some.uuid, some.name, some.state, number, waits_for, is_held=is_held)


def _fold(graph: Graph, group_of: Callable[[Node], tuple[Hashable, ...]]) -> Graph:
    first: dict[Hashable, str] = {}
    of: dict[str, str] = {}
    nodes: dict[str, Node] = {}
    for node in graph.nodes.values():
        group = group_of(node)
        id = node.uuid if node.uuid == graph.root else first.setdefault(group, node.uuid)
        of[node.uuid] = id
        if id not in nodes:
            name = group[-2]
            nodes[id] = replace(node, name=str(name)) if id != graph.root else node
        else:
            nodes[id] = _together(nodes[id], node)
    edges = Counter[tuple[str, str]]()
    for edge in graph.edges:
        edges[(of[edge.parent], of[edge.child])] += edge.number
    made = tuple(Edge(parent, child, number) for (parent, child), number in edges.items())
    return Graph(graph.root, nodes, made, graph.is_whole, is_folded=True)
