"""The edges' primitives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jobboard.backends import edge_store, edges
from jobboard.backends.edge_rows import (
    EDGE_OUTCOMES,
    EdgeCounts,
    EdgePage,
    EdgeRow,
    LinkOutcome,
    Outcome,
    graph_of_parent,
    parent_of_graph,
    without_results,
)
from jobboard.backends.edges import Ended
from jobboard.backends.etcd.batches import Batches
from jobboard.backends.etcd.changes import Change, change_of
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.edge_records import (
    LETTERS,
    OPEN_GRAPH,
    Mark,
    child_edge,
    edge_of,
    edge_ops,
    ended_of,
    mark_of,
    parents_in,
    reads_of_ended,
)
from jobboard.backends.etcd.expiry import Expiry
from jobboard.backends.etcd.keys import behind
from jobboard.backends.etcd.layout import VersionedJob
from jobboard.backends.etcd.planning import Existing
from jobboard.backends.etcd.resolving import Resolver
from jobboard.backends.etcd.txn import Txn, after, count_prefix, get, put, scan, scan_prefix
from jobboard.backends.kv.read_modify_write import CHANGE_TIMEOUT, Deadline
from jobboard.backends.outcomes import edge_to, was_dropped
from jobboard.backends.rows import Fence, Verdict
from jobboard.backends.transition import Resolve
from jobboard.states import JobState


class EdgeStore(edge_store.EdgeStore):
    """Each edge has a key by its child and outcome, which holds the parent's result, and one by its parent."""

    def __init__(self, connection: Connection, expiry: Expiry, batches: Batches, resolver: Resolver) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._expiry, self._batches, self._resolver = expiry, batches, resolver

    # -- changes -------------------------------------------------------------------------------------------------------

    def link(self, child: str, parents: Sequence[str], fence: Fence | None = None) -> LinkOutcome:
        deadline = Deadline(CHANGE_TIMEOUT)
        while True:
            outcome = self._link(child, list(dict.fromkeys(parents)), fence)
            if outcome is not None:
                return outcome
            deadline.check(f"job {child} or its parents change all the time")

    def _link(self, child: str, parents: Sequence[str], fence: Fence | None) -> LinkOutcome | None:
        """Link a job and its parents; None, and nothing is done, if they have changed meanwhile."""
        keys = self._keys
        job, *found = self._expiry.read([child, *parents])
        known = {one.row.uuid: one for one in found if one is not None and one.row.uuid in parents}
        if job is None or job.row.uuid != child or len(known) < len(parents):
            return LinkOutcome.MISSING
        reads = [get(keys.child(parent, child), keys_only=True) for parent in parents]
        linked = self._connection.read([*reads, *reads_of_ended(keys, child, 1)])
        missing = [parent for parent, there in zip(parents, linked, strict=False) if there.first is None]
        if not missing:
            return LinkOutcome.REPEATED
        row = job.row.seen()
        if not edges.takes_parents(row, fence):
            return edges.refused_link(fence)
        new = [edge_to(child, known[parent].row) for parent in missing]
        standing = [next(iter(parents_in(part)), None) for part in linked[len(parents) :]]
        return self._write_link(job, new, standing, [known[parent] for parent in missing])

    def _write_link(
        self, job: VersionedJob, new: Sequence[EdgeRow], standing: Sequence[str | None], parents: Sequence[VersionedJob]
    ) -> LinkOutcome | None:
        keys, row, now = self._keys, job.row.seen(), self._connection.now()
        existing = Existing(True, parents={parent.row.uuid: parent for parent in parents})
        if not self._batches.flag([one for one in parents if one.row.state is not JobState.COMPLETE], existing):
            return None
        added = ended_of(new)
        graph, open_, failed, gone = standing
        transition = edges.link(
            row, Ended(graph or open_ or added.open, failed or added.failed, gone or added.gone), now
        )
        # The record is rewritten in any case: who lets the job run meanwhile decides anew.
        touched = put(job.record, job.row.packed())
        change = Change(job, replace(job.row), [], ops=(touched,))
        if transition is not None:
            change = change_of(job, row, transition)
        change.compares = tuple(self._batches.compares_of_parents(existing, new))
        # One that is claimed may have had no edges, and so nothing that says to the sweep that it has.
        noted = put(keys.kept_of(row.uuid), b"")
        change.ops = (*change.ops, noted, *(op for edge in new for op in edge_ops(keys, edge)))
        return LinkOutcome.DONE if self._resolver.carry_out([change]) else None

    def seal(self, graph: str) -> Verdict:
        deadline, parent = Deadline(CHANGE_TIMEOUT), parent_of_graph(graph)
        while True:
            verdict, mark = self._batches.sealing(graph)
            if verdict is not Verdict.DONE or mark is None or self._turn(mark, Outcome.DONE):
                self._resolver.after([], [] if mark is None else [parent])
                return verdict
            deadline.check(f"the graph {graph} changes all the time")

    def drop(self, graph: str) -> None:
        deadline, parent = Deadline(CHANGE_TIMEOUT), parent_of_graph(graph)
        while True:
            mark = mark_of(parent, self._connection.read([get(self._keys.mark(parent))])[0].first)
            if mark is None or mark.step.outcome is Outcome.DONE:
                return
            if self._turn(mark, Outcome.GONE):
                self._resolver.after([], [parent])
                return
            deadline.check(f"the graph {graph} changes all the time")

    def _turn(self, before: Mark, outcome: Outcome) -> bool:
        """Let a mark be due now, if it is as it was read."""
        mark = Mark(Resolve(before.step.parent, outcome), self._connection.now())
        return self._connection.send(Txn([before.unchanged(self._keys)], mark.ops(self._keys, before))).succeeded

    def resolve(self, parents: Sequence[str]) -> list[str]:
        rest = self._resolver.resolve(parents)
        return [parent for parent in parents if parent in rest]

    # -- reading -------------------------------------------------------------------------------------------------------

    def parents(self, child: str, cursor: object | None, size: int) -> EdgePage:
        return self._parents([child], cursor, size)[0]

    def first_parents(self, children: Sequence[str], size: int) -> list[EdgePage]:
        pages = self._parents(children, None, size) if children else []
        return [without_results(page) for page in pages]

    def _parents(self, children: Sequence[str], cursor: object | None, size: int) -> list[EdgePage]:
        prefixes = map(self._keys.edges_of, children)
        scans = [scan(behind(cursor, prefix), prefix + OPEN_GRAPH, size) for prefix in prefixes]
        pages = []
        for found in self._expiry.read_board(scans):
            edges = [edge for kv in found.kvs if (edge := edge_of(self._keys, kv)) is not None]
            pages.append(EdgePage(edges, found.cursor))
        return pages

    def children(self, parent: str, cursor: object | None, size: int) -> EdgePage:
        return self._children([parent], cursor, size)[0]

    def first_children(self, parents: Sequence[str], size: int) -> list[EdgePage]:
        return self._children(parents, None, size) if parents else []

    def _children(self, parents: Sequence[str], cursor: object | None, size: int) -> list[EdgePage]:
        prefixes = map(self._keys.children_of, parents)
        scans = [scan(behind(cursor, prefix), after(prefix), size) for prefix in prefixes]
        return [
            EdgePage([child_edge(self._keys, kv) for kv in found.kvs], found.cursor)
            for found in self._expiry.read_board(scans)
        ]

    def counts(self, children: Sequence[str]) -> list[EdgeCounts]:
        prefixes = [self._keys.edges_of(child) + LETTERS[each] + b"/" for child in children for each in EDGE_OUTCOMES]
        ops = list(map(count_prefix, prefixes))
        totals = [found.total for found in self._expiry.read_board(ops)] if ops else []
        return [EdgeCounts(*totals[at * 4 : at * 4 + 4]) for at in range(len(children))]

    def graphs(self, children: Sequence[str]) -> list[str | None]:
        ops = [scan_prefix(self._keys.edges_of(child) + OPEN_GRAPH + b"/", 1, keys_only=True) for child in children]
        found = map(parents_in, self._expiry.read_board(ops) if ops else [])
        return [graph_of_parent(parents[0]) if parents else None for parents in found]

    def dropped(self, uuids: Sequence[str]) -> list[bool]:
        found = self._expiry.read(list(uuids)) if uuids else []
        return [was_dropped(None if job is None else job.row) for job in found]
