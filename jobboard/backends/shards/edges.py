"""Parents and children, which are on one shard."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backends.base import Backend
from jobboard.backends.edge_rows import EdgeCounts, EdgePage, LinkOutcome, graph_of_parent, is_graph
from jobboard.backends.edge_store import EdgeStore
from jobboard.backends.rows import Fence, Verdict
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.posting import check_parents


class Edges(EdgeStore):
    """Each request goes to the shard of its job, or of its graph."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def link(self, child: str, parents: Sequence[str], fence: Fence | None = None) -> LinkOutcome:
        number = self._fleet.locate([child])[0]
        check_parents(self._fleet, dict.fromkeys(parents, child), number)
        return self._fleet.ask(number, lambda shard: shard.edges.link(child, parents, fence))

    def seal(self, graph: str) -> Verdict:
        return self._fleet.ask(self._fleet.home(graph), lambda shard: shard.edges.seal(graph))

    def drop(self, graph: str) -> None:
        self._fleet.ask(self._fleet.home(graph), lambda shard: shard.edges.drop(graph))

    def resolve(self, parents: Sequence[str]) -> list[str]:
        uuids = list(map(graph_of_parent, parents))
        left: list[str] = []

        def resolve(shard: Backend, some: list[str]) -> list[None]:
            left.extend(shard.edges.resolve(some))
            return [None] * len(some)

        self._fleet.split([self._fleet.home(uuid) for uuid in uuids], parents, resolve, changes=True)
        return left

    def parents(self, child: str, cursor: object | None, size: int) -> EdgePage:
        return self._fleet.ask_of(child, lambda shard: shard.edges.parents(child, cursor, size))

    def children(self, parent: str, cursor: object | None, size: int) -> EdgePage:
        number = self._fleet.home(graph_of_parent(parent)) if is_graph(parent) else self._fleet.locate([parent])[0]
        return self._fleet.ask(number, lambda shard: shard.edges.children(parent, cursor, size))

    def first_children(self, parents: Sequence[str], size: int) -> list[EdgePage]:
        numbers = self._fleet.locate(parents)
        return self._fleet.split(numbers, parents, lambda shard, some: shard.edges.first_children(some, size))

    def first_parents(self, children: Sequence[str], size: int) -> list[EdgePage]:
        numbers = self._fleet.locate(children)
        return self._fleet.split(numbers, children, lambda shard, some: shard.edges.first_parents(some, size))

    def counts(self, children: Sequence[str]) -> list[EdgeCounts]:
        numbers = self._fleet.locate(children)
        return self._fleet.split(numbers, children, lambda shard, some: shard.edges.counts(some))

    def graphs(self, children: Sequence[str]) -> list[str | None]:
        numbers = self._fleet.locate(children)
        return self._fleet.split(numbers, children, lambda shard, some: shard.edges.graphs(some))

    def dropped(self, uuids: Sequence[str]) -> list[bool]:
        return self._fleet.split(self._fleet.locate(uuids), uuids, lambda shard, some: shard.edges.dropped(some))
