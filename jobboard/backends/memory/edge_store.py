"""The edges' primitives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from jobboard.backends import edge_store
from jobboard.backends.edge_rows import (
    EdgeCounts,
    EdgePage,
    EdgeRow,
    LinkOutcome,
    Outcome,
    is_graph,
    parent_of_graph,
    without_results,
)
from jobboard.backends.edges import link, refused_link, takes_parents
from jobboard.backends.memory.client import MemoryClient
from jobboard.backends.outcomes import was_dropped
from jobboard.backends.rows import Fence, Verdict
from jobboard.backends.transition import Resolve


class EdgeStore(edge_store.EdgeStore):
    """Each takes the lock once."""

    def __init__(self, client: MemoryClient) -> None:
        self._store, self._lock, self._begin = client.store, client.lock, client.begin

    def link(self, child: str, parents: Sequence[str], fence: Fence | None = None) -> LinkOutcome:
        with self._lock:
            now = self._begin()
            store = self._store
            row = store.rows.get(child)
            if row is None or any(parent not in store.rows for parent in parents):
                return LinkOutcome.MISSING
            missing = [parent for parent in parents if not store.edges.has(child, parent)]
            if not missing:
                return LinkOutcome.REPEATED
            if not takes_parents(row, fence):
                return refused_link(fence)
            for parent in missing:
                store.edges.add(child, store.rows[parent])
            store.edges.settle(row, now, link)
            store.finish(now)
            return LinkOutcome.DONE

    def seal(self, graph: str) -> Verdict:
        with self._lock:
            now = self._begin()
            verdict = self._store.seal(graph, now)
            self._store.finish(now)
            return verdict

    def drop(self, graph: str) -> None:
        with self._lock:
            now = self._begin()
            parent = parent_of_graph(graph)
            mark = self._store.edges.marks.get(parent)
            if mark is not None and mark.step.outcome is Outcome.GONE:
                self._store.edges.mark(Resolve(parent, Outcome.GONE), now)
                self._store.finish(now)

    def resolve(self, parents: Sequence[str]) -> list[str]:
        with self._lock:
            now = self._begin()
            edges = self._store.edges
            for parent in parents:
                if parent in edges.marks and edges.marks[parent].due <= now:
                    edges.resolve(parent, now)
            self._store.finish(now)
            return [parent for parent in parents if parent in edges.marks and edges.marks[parent].due <= now]

    def parents(self, child: str, cursor: object | None, size: int) -> EdgePage:
        with self._lock:
            self._begin()
            return self._parents(child, cursor, size)

    def first_parents(self, children: Sequence[str], size: int) -> list[EdgePage]:
        with self._lock:
            self._begin()
            pages = [self._parents(child, None, size) for child in children]
            return [without_results(page) for page in pages]

    def graphs(self, children: Sequence[str]) -> list[str | None]:
        with self._lock:
            self._begin()
            return list(map(self._store.edges.open_graph_of, children))

    def dropped(self, uuids: Sequence[str]) -> list[bool]:
        with self._lock:
            self._begin()
            return [was_dropped(self._store.rows.get(uuid)) for uuid in uuids]

    def _parents(self, child: str, cursor: object | None, size: int) -> EdgePage:
        found = self._store.edges.by_child.get(child)
        edges = [] if found is None else [edge for edge in found.edges.values() if not is_graph(edge.parent)]
        first = int(str(cursor or 0))
        return EdgePage(edges[first : first + size], first + size if first + size < len(edges) else None)

    def children(self, parent: str, cursor: object | None, size: int) -> EdgePage:
        with self._lock:
            self._begin()
            return self._children(parent, cursor, size)

    def first_children(self, parents: Sequence[str], size: int) -> list[EdgePage]:
        with self._lock:
            self._begin()
            return [self._children(parent, None, size) for parent in parents]

    def _children(self, parent: str, cursor: object | None, size: int) -> EdgePage:
        found = list(islice(self._children_after(parent, cursor), size))
        return EdgePage(found, found[-1].child if len(found) == size else None)

    def _children_after(self, parent: str, cursor: object | None) -> Iterator[EdgeRow]:
        edges = self._store.edges
        for child in edges.children_of(parent).after(str(cursor or "")):
            edge = edges.by_child[child].edges[parent]
            yield EdgeRow(edge.child, edge.parent, edge.outcome, edge.name)

    def counts(self, children: Sequence[str]) -> list[EdgeCounts]:
        with self._lock:
            self._begin()
            found = [self._store.edges.by_child.get(child) for child in children]
            return [EdgeCounts() if each is None else each.counts() for each in found]
