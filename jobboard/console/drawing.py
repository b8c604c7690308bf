"""Where the boxes and lines of a graph of jobs stand in a drawing, in pixels. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from jobboard.graph.model import Graph, Node
from jobboard.operate.graph.layout import Layout, layout_of

#: The size of a box, the space between two of them, and around all.
WIDTH, HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 208, 46, 72, 14, 12


@dataclass(frozen=True, slots=True)
class Box:
    """A node; ``x`` and ``y`` are of its corner at the top left."""

    node: Node
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Line:
    """A pair of nodes: the path from the parent to the child, as SVG has it; ``number`` of edges."""

    path: str
    number: int


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph from the left, where the first parents are, to the right."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


def drawing_of(graph: Graph) -> Drawing:
    """Place a graph. Edges from a node to itself, which only folded graphs have, are left out."""
    edges = {(edge.parent, edge.child): edge.number for edge in graph.edges if edge.parent != edge.child}
    layout = layout_of(list(graph.nodes), list(edges))
    boxes = tuple(Box(node, *_corner(layout, *layout.places[id])) for id, node in graph.nodes.items())
    lines = tuple(Line(_path(layout, layout.routes[pair]), number) for pair, number in edges.items())
    width = 2 * _MARGIN + layout.layers * (WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + (layout.bottom - layout.top + 1) * (HEIGHT + _GAP_Y) - _GAP_Y
    return Drawing(width, height, boxes, lines)


def _corner(layout: Layout, layer: int, row: float) -> tuple[float, float]:
    return _MARGIN + layer * (WIDTH + _GAP_X), _MARGIN + (row - layout.top) * (HEIGHT + _GAP_Y)


def _path(layout: Layout, route: Sequence[tuple[int, float]]) -> str:
    """Return a curve from the side of one box to that of the other, straight on where it passes a layer."""
    is_back = route[0][0] > route[-1][0]
    parts: list[str] = []
    for (layer, row), (next_layer, next_row) in pairwise(route):
        x, y = _corner(layout, layer, row)
        end_x, end_y = _corner(layout, next_layer, next_row)
        x, end_x = (x, end_x + WIDTH) if is_back else (x + WIDTH, end_x)
        y, end_y, middle = y + HEIGHT / 2, end_y + HEIGHT / 2, (x + end_x) / 2
        begin = f"L{x:g} {y:g}" if parts else f"M{x:g} {y:g}"
        parts.append(f"{begin}C{middle:g} {y:g} {middle:g} {end_y:g} {end_x:g} {end_y:g}")
    return "".join(parts)
