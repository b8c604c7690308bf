"""The layers of a graph: each node stands in a later layer than its parents. Pure, and linear in nodes and edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobboard.graph.model import Links, links_of

Pair = tuple[str, str]


def layers_of(nodes: Sequence[str], edges: Sequence[Pair]) -> dict[str, int]:
    """Return the layer of each node, from 0 on: the length of the longest path to it.

    A node without parents stands just before the first of its children. Edges that would close a cycle, which only
    folded graphs have, count the other way round.
    """
    forward = without_cycles(nodes, edges)
    links = links_of(nodes, forward)
    layers = dict.fromkeys(nodes, 0)
    order = list(_in_order(nodes, links))
    for node in order:
        for child in links.children[node]:
            layers[child] = max(layers[child], layers[node] + 1)
    for node in order:
        children = links.children[node]
        if children and not links.parents[node]:
            layers[node] = min(layers[child] for child in children) - 1
    return layers


def without_cycles(nodes: Sequence[str], edges: Sequence[Pair]) -> list[Pair]:
    """Return the edges, each turned round that leads back to a node of the path to it; none from a node to itself."""
    children = links_of(nodes, edges).children
    back = set[Pair]()
    done, on_path = set[str](), set[str]()
    for start in nodes:
        if start not in done:
            _look_for_back_edges(start, children, done, on_path, back)
    turned = ((child, parent) if (parent, child) in back else (parent, child) for parent, child in edges)
    return [pair for pair in dict.fromkeys(turned) if pair[0] != pair[1]]


def _look_for_back_edges(
    start: str, children: dict[str, list[str]], done: set[str], on_path: set[str], back: set[Pair]
) -> None:
    """Walk down from a node without recursion: a graph may be thousands of levels deep."""
    path: list[tuple[str, Iterator[str]]] = [(start, iter(children[start]))]
    on_path.add(start)
    # Each turn passes an edge, or leaves a node for good.
    while path:
        node, rest = path[-1]
        child = next(rest, None)
        if child is None:
            path.pop()
            on_path.discard(node)
            done.add(node)
        elif child in on_path:
            back.add((node, child))
        elif child not in done:
            on_path.add(child)
            path.append((child, iter(children[child])))


def _in_order(nodes: Sequence[str], links: Links) -> Iterator[str]:
    """Yield each node behind its parents."""
    left = {node: len(links.parents[node]) for node in nodes}
    ready = [node for node in nodes if not left[node]]
    for node in ready:
        yield node
        for child in links.children[node]:
            left[child] -= 1
            if not left[child]:
                # The loop goes on with it; each node comes once.
                ready.append(child)
