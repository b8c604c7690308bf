"""What jobs wait for: the primitives of edges and graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jobboard.backends import edge_store
from jobboard.backends.edge_rows import (
    EdgeCounts,
    EdgePage,
    EdgeRow,
    LinkOutcome,
    Outcome,
    graph_of_parent,
    is_graph,
    parent_of_graph,
    without_results,
)
from jobboard.backends.edges import refused_link, takes_parents
from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.outcomes import was_dropped
from jobboard.backends.rows import Fence, Verdict
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.edge_codec import decode_edge
from jobboard.backends.zookeeper.edge_resolver import EdgeResolver
from jobboard.backends.zookeeper.lanes import Lanes
from jobboard.backends.zookeeper.layout import Layout, last_part, last_two
from jobboard.backends.zookeeper.new_edges import NewEdges
from jobboard.backends.zookeeper.read_modify_write import ReadModifyWrite
from jobboard.backends.zookeeper.requests import Data
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.backends.zookeeper.transactions import Transactions
from jobboard.backends.zookeeper.units import UnitWriter
from jobboard.errors import BoardUnavailable

MAX_RETRIES = 200
#: Edges that one request reads; each may have a result of 64 KiB.
_MAX_READ = 100


class EdgeStore(edge_store.EdgeStore):
    """Each change is one transaction, tried again if another client was faster."""

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        clock: ServerClock,
        transactions: Transactions,
        lanes: Lanes,
        writer: UnitWriter,
        jobs: ReadModifyWrite,
        resolver: EdgeResolver,
    ) -> None:
        self._connection, self._layout, self._clock, self._lanes = connection, layout, clock, lanes
        self._transactions, self._writer, self._jobs, self._resolver = transactions, writer, jobs, resolver

    # -- changes ---------------------------------------------------------------------------------------------------

    def link(self, child: str, parents: Sequence[str], fence: Fence | None = None) -> LinkOutcome:
        for _ in range(MAX_RETRIES):
            outcome = self._link(child, list(dict.fromkeys(parents)), fence)
            if outcome is not None:
                return outcome
        raise BoardUnavailable(f"others change job {child}, or a parent of it, faster than this client can")

    def _link(self, child: str, parents: Sequence[str], fence: Fence | None) -> LinkOutcome | None:
        """Make the edges that a job lacks; None if another client was faster."""
        job, *found = self._jobs.current([child, *parents])
        rows = [row for row in found if row is not None]
        if job is None or len(rows) < len(parents):
            return LinkOutcome.MISSING
        layout = self._layout
        paths = [layout.edges_of(child), *(layout.edge(child, parent) for parent in parents)]
        tally, *data = self._connection.read_many([*paths, *map(layout.children_of, parents)])
        there, folders = data[: len(parents)], data[len(parents) :]
        missing = [row for row, edge in zip(rows, there, strict=True) if edge is None]
        if not missing:
            return LinkOutcome.REPEATED
        if not takes_parents(job, fence):
            return refused_link(fence)
        edges = NewEdges(layout, {child})
        for parent, folder in zip(parents, folders, strict=True):
            edges.learn_folder(parent, folder)
        if tally is not None:
            edges.add_to(child, self._resolver.tally(child, tally), tally.stat.version)
        return LinkOutcome.DONE if self._connect(job, missing, edges) else None

    def _connect(self, job: StoredJob, parents: Sequence[StoredJob], edges: NewEdges) -> bool:
        """Write new edges with their child; False if another client was faster."""
        known = self._lanes.limit([job])
        edges.connect(job, parents, None, self._clock.now())
        ended = self._writer.write_together([job], known, edges)
        if ended:
            self._resolver.work_off_own(ended)
        return ended is not None

    def seal(self, graph: str) -> Verdict:
        return self._change_graph(graph, lambda edges, now: edges.seal(graph, now))

    def drop(self, graph: str) -> None:
        self._change_graph(graph, lambda edges, now: edges.drop(graph, now))

    def _change_graph(self, graph: str, decide: Callable[[NewEdges, float], Verdict]) -> Verdict:
        """Change the mark of a graph, and work it off."""
        parent = parent_of_graph(graph)
        for _ in range(MAX_RETRIES):
            edges = NewEdges(self._layout)
            edges.learn_folder(parent, self._connection.read_one(self._layout.children_of(parent)))
            verdict = decide(edges, self._clock.now())
            if verdict is Verdict.LOST:
                return verdict
            if verdict is Verdict.REPEATED or self._is_written(edges):
                self._resolver.work_off_own([parent])
                return verdict
        raise BoardUnavailable(f"others change the graph {graph} faster than this client can")

    def _is_written(self, edges: NewEdges) -> bool:
        transaction = self._transactions.begin()
        edges.write(transaction, self._transactions)
        return self._transactions.is_committed(transaction)

    def resolve(self, parents: Sequence[str]) -> list[str]:
        return self._resolver.resolve(parents)

    # -- looks -----------------------------------------------------------------------------------------------------

    def parents(self, child: str, cursor: object | None, size: int) -> EdgePage:
        names = self._names(self._layout.edges_of(child), cursor)
        part = [name for name in names if not is_graph(name)][: size + 1]
        return self._page([(child, parent) for parent in part], size, part)

    def children(self, parent: str, cursor: object | None, size: int) -> EdgePage:
        part = self._names(self._layout.children_of(parent), cursor)[: size + 1]
        return without_results(self._page([(child, parent) for child in part], size, part))

    def first_children(self, parents: Sequence[str], size: int) -> list[EdgePage]:
        names = self._names_of_each(parents, self._layout.children_of)
        pairs = [(child, parent) for parent, its in names.items() for child in its[:size]]
        return self._first_pages(names, size, pairs, lambda edge: edge.parent)

    def first_parents(self, children: Sequence[str], size: int) -> list[EdgePage]:
        names = self._names_of_each(children, self._layout.edges_of)
        pairs = [(child, parent) for child, its in names.items() for parent in its[:size]]
        return self._first_pages(names, size, pairs, lambda edge: edge.child)

    def _names_of_each(self, uuids: Sequence[str], folder_of: Callable[[str], str]) -> dict[str, list[str]]:
        """Return the jobs that are named in the folder of each of these, in order."""
        names: dict[str, list[str]] = {uuid: [] for uuid in uuids}
        for path in self._connection.children(list(map(folder_of, names))):
            uuid, name = last_two(path)
            if not is_graph(name):
                names[uuid].append(name)
        return {uuid: sorted(its) for uuid, its in names.items()}

    def _first_pages(
        self,
        names: Mapping[str, list[str]],
        size: int,
        pairs: Sequence[tuple[str, str]],
        owner: Callable[[EdgeRow], str],
    ) -> list[EdgePage]:
        """Read the edges of these pairs; return a page for each job, which goes on behind its last name."""
        edges: dict[str, list[EdgeRow]] = {uuid: [] for uuid in names}
        for edge in self._edges(pairs):
            edges[owner(edge)].append(edge)
        return [
            without_results(EdgePage(edges[uuid], its[size - 1] if len(its) > size else None))
            for uuid, its in names.items()
        ]

    def _names(self, path: str, cursor: object | None) -> list[str]:
        """Return what is below a znode, in order, behind this name."""
        names = sorted(map(last_part, self._connection.children([path])))
        return [name for name in names if cursor is None or name > str(cursor)]

    def _page(self, pairs: Sequence[tuple[str, str]], size: int, names: Sequence[str]) -> EdgePage:
        """Return the edges of ``size`` pairs; of one more it is known that there is a next page."""
        return EdgePage(self._edges(pairs[:size]), names[size - 1] if len(names) > size else None)

    def _edges(self, pairs: Sequence[tuple[str, str]]) -> list[EdgeRow]:
        """Read those of these edges that are there."""
        found: list[Data | None] = []
        for start in range(0, len(pairs), _MAX_READ):
            part = pairs[start : start + _MAX_READ]
            found += self._connection.read_many(self._layout.edge(*pair) for pair in part)
        there = zip(pairs, found, strict=True)
        return [decode_edge(*pair, data.data) for pair, data in there if data is not None]

    def counts(self, children: Sequence[str]) -> list[EdgeCounts]:
        if not children:
            return []
        found = self._connection.read_many(map(self._layout.edges_of, children))
        pairs = zip(children, found, strict=True)
        return [EdgeCounts() if data is None else self._resolver.tally(child, data).counts for child, data in pairs]

    def graphs(self, children: Sequence[str]) -> list[str | None]:
        names = self._connection.children(list(map(self._layout.edges_of, children)))
        edges = self._edges([(child, name) for child, name in map(last_two, names) if is_graph(name)])
        open_ones = {edge.child: graph_of_parent(edge.parent) for edge in edges if edge.outcome is Outcome.OPEN}
        return [open_ones.get(child) for child in children]

    def dropped(self, uuids: Sequence[str]) -> list[bool]:
        return list(map(was_dropped, self._jobs.current(list(uuids))))
