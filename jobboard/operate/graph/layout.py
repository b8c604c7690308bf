"""Places of the nodes of a graph for a drawing: in layers, with few crossings. Pure; 10,000 nodes take a moment.

It is our own, since the layouts that Python packages have need Graphviz on the machine, or NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from jobboard.graph.layering import Pair, layers_of, without_cycles
from jobboard.graph.model import Links, links_of

#: How often the layers are sorted anew, down and up.
_SWEEPS = 4
#: How many bends there are at most, for each node, before long edges are drawn straight.
_MAX_BENDS = 10


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things are: a layer, and a row, of which that in the middle of all is 0.

    :ivar places: of each node.
    :ivar routes: of each edge, from the parent to the child, with a bend in each layer that it passes.
    """

    places: dict[str, tuple[int, float]]
    routes: dict[Pair, list[tuple[int, float]]]

    @property
    def layers(self) -> int:
        return 1 + max((layer for layer, _ in self.places.values()), default=0)

    @property
    def top(self) -> float:
        """The smallest row."""
        return min((row for route in self._all() for _, row in route), default=0.0)

    @property
    def bottom(self) -> float:
        """The largest row."""
        return max((row for route in self._all() for _, row in route), default=0.0)

    def _all(self) -> list[list[tuple[int, float]]]:
        return [list(self.places.values()), *self.routes.values()]


def layout_of(nodes: Sequence[str], edges: Sequence[Pair]) -> Layout:
    """Place nodes; edges are pairs of parent and child. The same graph always gives the same layout."""
    layers = layers_of(nodes, edges)
    forward = without_cycles(nodes, edges)
    chains = _with_bends(forward, layers, _MAX_BENDS * len(nodes))
    links = links_of(layers, [pair for chain in chains.values() for pair in pairwise(chain)])
    rows = _rows_of(layers, links)
    places = {node: (layers[node], rows[node]) for node in nodes}
    routes = {}
    for parent, child in dict.fromkeys(edges):
        chain = chains.get((parent, child)) or list(reversed(chains.get((child, parent), [child, parent])))
        routes[(parent, child)] = [(layers[each], rows[each]) for each in chain]
    return Layout(places, routes)


def _with_bends(edges: Sequence[Pair], layers: dict[str, int], most: int) -> dict[Pair, list[str]]:
    """Return the nodes and bends of each edge, and add the bends, which have no text as a name, to the layers."""
    spans = {pair: layers[pair[1]] - layers[pair[0]] for pair in edges}
    if sum(span - 1 for span in spans.values()) > most:
        return {pair: list(pair) for pair in edges}
    chains = {}
    for number, ((parent, child), span) in enumerate(spans.items()):
        bends = [f"\0{number}.{step}" for step in range(1, span)]
        layers.update({bend: layers[parent] + step for step, bend in enumerate(bends, 1)})
        chains[(parent, child)] = [parent, *bends, child]
    return chains


def _rows_of(layers: dict[str, int], links: Links) -> dict[str, float]:
    """Sort each layer by where the neighbours of its nodes are; return the row of each node."""
    by_layer: list[list[str]] = [[] for _ in range(1 + max(layers.values(), default=-1))]
    for node, layer in layers.items():
        by_layer[layer].append(node)
    rows = {node: float(row) for nodes in by_layer for node, row in _centred(nodes)}
    for sweep in range(_SWEEPS):
        is_down = sweep % 2 == 0
        neighbours = links.parents if is_down else links.children
        for nodes in by_layer if is_down else reversed(by_layer):
            wanted = {node: _mean([rows[each] for each in neighbours[node]], rows[node]) for node in nodes}
            nodes.sort(key=wanted.__getitem__)
            rows.update(_centred(nodes))
    return rows


def _centred(nodes: Sequence[str]) -> list[tuple[str, float]]:
    return [(node, index - (len(nodes) - 1) / 2) for index, node in enumerate(nodes)]


def _mean(values: Sequence[float], without: float) -> float:
    return sum(values) / len(values) if values else without
