"""Audits edges, marks, steps and signals: finds what contradicts the jobs, and repairs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from jobboard.backends import edges
from jobboard.backends.edge_rows import EdgeRow, Outcome, is_graph
from jobboard.backends.etcd.batches import Batches
from jobboard.backends.etcd.changes import change_of
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.edge_records import (
    Mark,
    child_edge,
    child_op,
    edge_ops,
    ended_of,
    is_child_edge,
    is_edge,
    letter_of,
    mark_of,
    outcome_at,
    step_of,
)
from jobboard.backends.etcd.keys import decoded, encoded
from jobboard.backends.etcd.layout import VersionedJob
from jobboard.backends.etcd.planning import Existing
from jobboard.backends.etcd.resolving import Resolver
from jobboard.backends.etcd.snapshots import Snapshot
from jobboard.backends.etcd.txn import KeyValue, Op, Txn, delete, modified_at, put
from jobboard.backends.findings import AuditFinding
from jobboard.backends.outcomes import edge_to
from jobboard.states import JobState

#: How many rounds a repair lets a mark be worked off at most.
_MAX_ROUNDS = 10_000

#: How many edges one request reads; each may have a result of 64 KiB.
_EDGES_AT_ONCE = 50

#: What is wrong, with which job, and what mends it.
_Problem = tuple[str | None, str, Callable[[], bool]]


@dataclass(slots=True)
class _Found:
    """What is stored at one revision: pairs of (child, parent) by both of their keys, and marks by parents."""

    jobs: dict[str, VersionedJob]
    #: What the key of the parent says, and what the key is.
    by_parent: dict[tuple[str, str], tuple[EdgeRow, KeyValue]] = field(default_factory=dict)
    #: The keys of the child, one for each letter that there is.
    by_child: dict[tuple[str, str], list[KeyValue]] = field(default_factory=dict)
    #: The keys of edges that can't be read.
    damaged: set[bytes] = field(default_factory=set)
    marks: dict[str, Mark] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    #: Keys that are none of an edge or a mark: nobody writes such ones.
    strays: list[KeyValue] = field(default_factory=list)

    def waits(self, uuid: str) -> bool:
        """Whether a job waits for parents."""
        job = self.jobs.get(uuid)
        return job is not None and job.row.ties is not None and job.row.ties.has_parents

    def edges_of(self) -> dict[str, list[EdgeRow]]:
        """Return the edges of each child."""
        edges: dict[str, list[EdgeRow]] = {}
        for edge, _ in self.by_parent.values():
            edges.setdefault(edge.child, []).append(edge)
        return edges


def _is_back(job: VersionedJob | None) -> bool:
    """Whether a job that can be read is not in the trash."""
    return job is not None and job.row.newer is None and job.row.state is not JobState.TRASHED


class EdgeAudit:
    """Compares what is stored of edges with the jobs, all at one revision."""

    def __init__(self, connection: Connection, batches: Batches, resolver: Resolver) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._batches, self._resolver = batches, resolver

    def audit(
        self, snapshot: Snapshot, jobs: Sequence[VersionedJob], others: Mapping[bytes, KeyValue], repair: bool
    ) -> tuple[list[AuditFinding], set[bytes]]:
        """Return what was found, and the timers that marks ask for.

        :param others: the other keys of jobs.
        """
        found = self._read(snapshot, jobs)
        timers = {self._keys.due_mark(mark.due, parent) for parent, mark in found.marks.items()}
        problems = [
            *self._problems_of_timers(found, others),
            *self._problems_of_pairs(found),
            *self._problems_of_parents(found),
            *self._problems_of_children(found),
            *self._leftovers(snapshot, found),
            *self._problems_of_strays(found),
        ]
        return [AuditFinding(uuid, text, repair and mend()) for uuid, text, mend in problems], timers

    def _read(self, snapshot: Snapshot, jobs: Sequence[VersionedJob]) -> _Found:
        keys = self._keys
        found = _Found({job.row.uuid: job for job in jobs})
        for kv in self._known(found, snapshot.pages(keys.children), keys.children, 2):
            edge = child_edge(keys, kv)
            found.by_parent[edge.child, edge.parent] = edge, kv
            found.damaged |= set() if is_child_edge(kv.value) else {kv.key}
        for kv in self._known(found, snapshot.pages(keys.edges, size=_EDGES_AT_ONCE), keys.edges, 3):
            child, _, parent = kv.key[len(keys.edges) :].split(b"/")
            found.by_child.setdefault((decoded(child), decoded(parent)), []).append(kv._replace(value=b""))
            found.damaged |= set() if is_edge(kv.value) else {kv.key}
        for pair, (edge, kv) in found.by_parent.items():
            of_child = found.by_child.get(pair, [])
            if kv.key in found.damaged and len(of_child) == 1:
                found.by_parent[pair] = replace(edge, outcome=outcome_at(keys, of_child[0].key)), kv
        for kv in self._known(found, snapshot.pages(keys.marks), keys.marks, 1):
            parent_of_mark = decoded(kv.last_part)
            mark = mark_of(parent_of_mark, kv)
            assert mark is not None
            found.marks[parent_of_mark] = mark
        found.kept = {decoded(kv.last_part) for kv in snapshot.pages(keys.kept, keys_only=True)}
        return found

    def _known(self, found: _Found, kvs: Iterable[KeyValue], prefix: bytes, count: int) -> Iterator[KeyValue]:
        """Iterate over those of these keys that have so many parts behind a prefix; note the others."""
        for kv in kvs:
            parts = kv.key[len(prefix) :].split(b"/")
            if len(parts) == count and all(encoded(decoded(part)) == part for part in parts):
                yield kv
            else:
                found.strays.append(kv)

    # -- problems ------------------------------------------------------------------------------------------------------

    def _problems_of_timers(self, found: _Found, others: Mapping[bytes, KeyValue]) -> Iterator[_Problem]:
        keys = self._keys
        for parent, mark in found.marks.items():
            timer = keys.due_mark(mark.due, parent)
            if timer not in others:
                mended = Txn([mark.unchanged(keys)], [put(timer, b"")])
                problem = "timer of the mark of {} is missing" if mark.is_readable else "mark of {} can't be read"
                yield None, f"the {problem.format(parent)}", self._sending(mended)

    def _problems_of_pairs(self, found: _Found) -> Iterator[_Problem]:
        """Find pairs that have one of their two keys only, or keys that say different things, or nothing."""
        keys = self._keys
        for child, parent in found.by_parent.keys() | found.by_child.keys():
            told, kvs = found.by_parent.get((child, parent)), found.by_child.get((child, parent), [])
            if told is None:
                mended = Txn([modified_at(kv.key, kv.modified) for kv in kvs], [delete(kv.key) for kv in kvs])
                yield child, f"the edge to {parent} is not known by the parent", self._sending(mended)
                continue
            edge, kv = told
            wanted = keys.edge(child, letter_of(parent, edge.outcome), parent)
            if [one.key for one in kvs] == [wanted] and found.damaged.isdisjoint((wanted, kv.key)):
                continue
            is_known = wanted not in found.damaged and any(one.key == wanted for one in kvs)
            ops: list[Op] = [delete(one.key) for one in kvs if one.key != wanted]
            now = self._edge_now(found, edge)
            ops += [child_op(keys, now)] if is_known else edge_ops(keys, now)
            yield (
                child,
                f"the edge to {parent} is missing or wrong",
                self._sending(Txn([modified_at(kv.key, kv.modified)], ops)),
            )

    def _edge_now(self, found: _Found, edge: EdgeRow) -> EdgeRow:
        """Return an edge with its parent's name and result, if that is there still, and stands so."""
        parent = found.jobs.get(edge.parent)
        now = edge if parent is None else edge_to(edge.child, parent.row.seen())
        return now if now.outcome is edge.outcome else edge

    def _problems_of_parents(self, found: _Found) -> Iterator[_Problem]:
        """Find parents that have ended, would end, or are back, without a mark that says so to their edges."""
        parents, back = dict[str, None](), set[str]()
        for edge, _ in found.by_parent.values():
            if edge.parent in found.marks or edge.outcome not in (Outcome.OPEN, Outcome.FAILED):
                continue
            job = found.jobs.get(edge.parent)
            if edge.outcome is Outcome.OPEN:
                parents[edge.parent] = None
            elif found.waits(edge.child) and _is_back(job):
                parents[edge.parent] = None
                back.add(edge.parent)
        for parent in parents:
            job = found.jobs.get(parent)
            if parent in back:
                yield parent, f"its edges say that it is in the trash: {parent}", self._marking(parent, job)
            elif job is None or not job.row.is_live:
                text = "its edges say that it has not ended" if job is not None else "it is gone, but holds jobs back"
                yield (None if is_graph(parent) else parent), f"{text}: {parent}", self._marking(parent, job)
            elif job.row.newer is None and (job.row.ties is None or not job.row.ties.has_children):
                yield parent, "its record does not say that it has children", self._flagging(job)

    def _problems_of_children(self, found: _Found) -> Iterator[_Problem]:
        edges_of = found.edges_of()
        for uuid, job in found.jobs.items():
            row = job.row.seen()
            if row.ties is None or not row.ties.has_parents:
                continue
            own = edges_of.get(uuid, [])
            if any(edge.parent in found.marks or edge.outcome is Outcome.OPEN for edge in own):
                continue
            if edges.settle(row, ended_of(own), self._connection.now()) is not None:
                yield uuid, "it waits for parents, none of which holds it back", self._settling(job, own)

    def _leftovers(self, snapshot: Snapshot, found: _Found) -> Iterator[_Problem]:
        """Find what belongs to jobs that are gone, or that no sweep would find then."""
        keys = self._keys
        owners = dict.fromkeys(child for child, _ in found.by_parent)
        for prefix in (keys.steps, keys.signals):
            for kv in snapshot.pages(prefix, keys_only=True):
                owners[decoded(kv.key[len(prefix) :].partition(b"/")[0])] = None
        for uuid in owners.keys() - found.kept:
            what = "no sweep would find its" if uuid in found.jobs else "it is gone, but not its"
            noted = Txn(then=[put(keys.kept_of(uuid), b"")])
            yield uuid, f"{what} edges, steps or signals", self._sending(noted)

    def _problems_of_strays(self, found: _Found) -> Iterator[_Problem]:
        for kv in found.strays:
            yield None, f"belongs to no job: {self._keys.kind_of(kv.key)}", partial(self._connection.delete, kv)

    # -- repairs -------------------------------------------------------------------------------------------------------

    def _sending(self, txn: Txn) -> Callable[[], bool]:
        return lambda: self._connection.send(txn).succeeded

    def _marking(self, parent: str, job: VersionedJob | None) -> Callable[[], bool]:
        step = step_of(parent, None if job is None else job.row.seen())

        def mend() -> bool:
            ops = Mark(step, self._connection.now()).ops(self._keys)
            if not self._connection.send(Txn([modified_at(self._keys.mark(parent), 0)], ops)).succeeded:
                return False
            return any(not self._resolver.resolve([parent]) for _ in range(_MAX_ROUNDS))

        return mend

    def _flagging(self, job: VersionedJob) -> Callable[[], bool]:
        return lambda: self._batches.flag([job], Existing())

    def _settling(self, job: VersionedJob, own: Sequence[EdgeRow]) -> Callable[[], bool]:
        def mend() -> bool:
            row = job.row.seen()
            transition = edges.settle(row, ended_of(own), self._connection.now())
            if transition is None:
                return True
            return bool(self._resolver.carry_out([change_of(job, row, transition)]))

        return mend
