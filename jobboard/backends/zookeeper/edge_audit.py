"""Looks for contradictions between jobs and what they have beside their own znodes: edges, marks, steps, signals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from jobboard.backends.edge_rows import EdgeRow, Outcome, is_graph
from jobboard.backends.edges import settle
from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.outcomes import edge_to
from jobboard.backends.transition import Resolve
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.edge_codec import NO_MARK, Mark, Tally, decode_mark, read_edge, read_tally, tally_of
from jobboard.backends.zookeeper.edge_resolver import EdgeResolver
from jobboard.backends.zookeeper.layout import Layout, last_part, last_two
from jobboard.backends.zookeeper.remains import Remains
from jobboard.backends.zookeeper.requests import Data
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.backends.zookeeper.transactions import Transactions
from jobboard.states import JobState

#: Znodes of which one request lists the children.
_MAX_LISTED = 100


class SuspectEdges(NamedTuple):
    """What seems wrong with what a job has; ``seen`` are the transactions that wrote what was read of it.

    :ivar parent: the parent of which an edge or a mark says something else, or nothing that can be read.
    :ivar is_gone: whether the job is not on the board.
    :ivar is_half: whether an edge is there by one of its two ends only.
    """

    uuid: str | None
    problem: str
    seen: tuple[int, ...]
    parent: str | None = None
    is_gone: bool = False
    is_half: bool = False

    #: It is no single znode.
    path: None = None


class EdgeAuditor:
    """Compares edges with the records of both ends, as they are stored."""

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        clock: ServerClock,
        transactions: Transactions,
        resolver: EdgeResolver,
        remains: Remains,
    ) -> None:
        self._connection, self._layout, self._clock = connection, layout, clock
        self._transactions, self._resolver, self._remains = transactions, resolver, remains

    # -- what is wrong ---------------------------------------------------------------------------------------------

    def suspects(self, jobs: Mapping[str, StoredJob], newer: Collection[str]) -> Iterator[SuspectEdges]:
        """Say what seems wrong."""
        tallies, folders = self._folders(self._layout.edges), self._folders(self._layout.children)
        left = {*tallies, *self._names(self._layout.steps), *self._names(self._layout.signals)}
        left |= {uuid for uuid, data in folders.items() if not data.stat.numChildren and not is_graph(uuid)}
        for uuid in sorted(left - jobs.keys() - set(newer)):
            yield SuspectEdges(
                uuid, "edges, steps or signals of it are left, but it is not on the board", (), is_gone=True
            )
        edges = self._pairs([self._layout.edges_of(uuid) for uuid in tallies])
        listed = self._pairs([self._layout.children_of(uuid) for uuid in folders])
        ways = {(child, parent) for child, parents in edges.items() for parent in parents}
        ways ^= {(child, parent) for parent, children in listed.items() for child in children}
        for child, parent in sorted(ways):
            yield SuspectEdges(child, f"only one of both ways leads to its parent {parent}", (), parent, is_half=True)
        for parent, data in folders.items():
            if not _is_readable(data):
                problem = f"what the edges to {parent} are to be told can't be read"
                yield SuspectEdges(None if is_graph(parent) else parent, problem, (data.stat.mzxid,), parent)
        for uuid, job in jobs.items():
            if job.ties is not None and job.ties.has_parents and job.state is not JobState.COMPLETE:
                yield from self._of_child(job, tallies.get(uuid), edges[uuid], folders, jobs, newer)

    def _names(self, kind: str) -> list[str]:
        return list(map(last_part, self._connection.in_buckets(kind, is_fresh=False)))

    def _folders(self, kind: str) -> dict[str, Data]:
        paths = self._connection.in_buckets(kind, is_fresh=False)
        return {last_part(path): data for path, data in self._connection.existing(paths, is_fresh=False)}

    def _pairs(self, paths: Sequence[str]) -> defaultdict[str, list[str]]:
        """Return the names of what is below each of these znodes, by the name of that."""
        found = defaultdict[str, list[str]](list)
        for start in range(0, len(paths), _MAX_LISTED):
            for path in self._connection.children(paths[start : start + _MAX_LISTED], is_fresh=False):
                folder, name = last_two(path)
                found[folder].append(name)
        return found

    def _of_child(
        self,
        job: StoredJob,
        tally: Data | None,
        parents: Sequence[str],
        folders: Mapping[str, Data],
        jobs: Mapping[str, StoredJob],
        newer: Collection[str],
    ) -> Iterator[SuspectEdges]:
        """Say what is wrong with the edges of a job that waits for parents."""
        if tally is None:
            yield SuspectEdges(job.uuid, "it waits for parents, but has none", (job.zxid,))
            return
        seen = (job.zxid, tally.stat.mzxid)
        paths = [self._layout.edge(job.uuid, parent) for parent in sorted(parents)]
        found = list(self._connection.existing(paths, is_fresh=False))
        marks = {parent: _mark_in(folders.get(parent)) for parent in parents}
        is_told = all(mark.due is None and _is_readable(folders.get(parent)) for parent, mark in marks.items())
        edges = list[EdgeRow]()
        for path, data in found:
            edge = read_edge(job.uuid, last_part(path), data.data)
            if edge is not None:
                edges.append(edge)
            elif is_told:
                yield SuspectEdges(job.uuid, f"its edge to {last_part(path)} can't be read", seen, last_part(path))
        if len(edges) < len(found):
            return
        counted = tally_of(edges)
        if counted != read_tally(tally.data):
            yield SuspectEdges(job.uuid, "its parents are not counted as they stand", seen)
            return
        if not is_told:
            return
        for edge in edges:
            step = _step_of(edge.parent, jobs.get(edge.parent), marks[edge.parent])
            is_open = edge.outcome in (Outcome.OPEN, Outcome.FAILED)
            if is_open and edge.parent not in newer and step.outcome is not edge.outcome:
                says = f"its edge to {edge.parent} says {edge.outcome.value}, which is {step.outcome.value}"
                yield SuspectEdges(job.uuid, says, seen, edge.parent)
                return
        if settle(job.copy(), counted.ended("a parent", "a parent"), self._clock.now()) is not None:
            yield SuspectEdges(job.uuid, "it waits for parents, none of which holds it back", seen)

    # -- repairs ---------------------------------------------------------------------------------------------------

    def repair(self, suspect: SuspectEdges, job: StoredJob | None) -> bool:
        """Mend it, given the parent's record as it is now, if a parent is what is wrong."""
        if suspect.uuid is None or (suspect.parent is not None and not suspect.is_half):
            return suspect.parent is not None and self._tell_anew(suspect.parent, job)
        if suspect.is_gone:
            self._remains.clean([suspect.uuid])
            return True
        if suspect.parent is None:
            return self._count_anew(suspect.uuid)
        return self._mend_half(suspect.uuid, suspect.parent)

    def _count_anew(self, uuid: str) -> bool:
        path = self._layout.edges_of(uuid)
        if self._connection.read_one(path) is None:
            self._transactions.create_all_buckets(self._layout.edges)
            request = self._connection.new_write()
            request.create(path, Tally().pack())
            self._connection.is_written(request)
        return self._resolver.settle_anew(uuid)

    def _mend_half(self, child: str, parent: str) -> bool:
        """Let a parent know its child, or nothing of one that does not know of it."""
        layout = self._layout
        edge, there = self._connection.read_many([layout.edge(child, parent), layout.child(parent, child)])
        request = self._connection.new_write()
        if edge is None and there is not None:
            request.delete(layout.child(parent, child))
        elif edge is not None and there is None:
            self._create_folder(parent)
            request.create(layout.child(parent, child), b"")
        else:
            return True
        return self._connection.is_written(request)

    def _create_folder(self, parent: str) -> None:
        path = self._layout.children_of(parent)
        self._transactions.create_all_buckets(self._layout.children)
        request = self._connection.new_write()
        request.create(path, b"")
        # It may be there.
        self._connection.is_written(request)

    def _tell_anew(self, parent: str, job: StoredJob | None) -> bool:
        """Let the edges of a parent say how it stands."""
        self._create_folder(parent)
        data = self._connection.read_one(self._layout.children_of(parent))
        transaction = self._transactions.begin()
        step = _step_of(parent, job, _mark_in(data))
        self._transactions.write_mark(transaction, Mark(step, self._clock.now()))
        if not self._transactions.is_committed(transaction):
            return False
        self._resolver.work_off([parent])
        return True


def _is_readable(data: Data | None) -> bool:
    """Whether a mark can be read, or there is none."""
    return data is None or not data.data or decode_mark(data.data) is not NO_MARK


def _mark_in(data: Data | None) -> Mark:
    return NO_MARK if data is None else decode_mark(data.data)


def _step_of(parent: str, job: StoredJob | None, mark: Mark) -> Resolve:
    """Return how a parent stands; a graph is as its mark says, and one that has none was given up."""
    if is_graph(parent):
        return Resolve(parent, Outcome.GONE if mark.step.outcome is Outcome.OPEN else mark.step.outcome)
    if job is None:
        return Resolve(parent, Outcome.GONE)
    edge: EdgeRow = edge_to("", job)
    return Resolve(parent, edge.outcome, edge.name, edge.result, edge.is_cut)
