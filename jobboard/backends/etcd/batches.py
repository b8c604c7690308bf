"""Writes postings as one step, alone or together with the end of a job."""

from __future__ import annotations

import random
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from jobboard.backends.edge_rows import GRAPH_TTL, EdgeRow, Outcome, is_graph, parent_of_graph
from jobboard.backends.etcd.changes import Change
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.edge_records import Mark, child_edge, edge_ops, mark_of
from jobboard.backends.etcd.errors import LeaseNotFound
from jobboard.backends.etcd.events import event_of, event_ops
from jobboard.backends.etcd.job_reader import JobReader
from jobboard.backends.etcd.job_writer import MAX_JOBS, JobWriter, waits_ops
from jobboard.backends.etcd.keys import MAX_SEQUENCE, decoded
from jobboard.backends.etcd.lane_rules import LaneRules
from jobboard.backends.etcd.lanes import Lanes, LaneStep, Member, size_of_row
from jobboard.backends.etcd.layout import Content, VersionedJob, content_of, kept_key, steps_between, waits_for_lane
from jobboard.backends.etcd.leases import Leases
from jobboard.backends.etcd.leftovers import Leftovers
from jobboard.backends.etcd.planning import Existing, Plan, Step, needs_look, with_follow_ups
from jobboard.backends.etcd.stored import StoredJob
from jobboard.backends.etcd.txn import (
    MAX_BYTES,
    Compare,
    Found,
    KeyValue,
    Op,
    Txn,
    TxnResult,
    absent,
    compared_in,
    get,
    kvs_of,
    less,
    many,
    modified_at,
    present,
    put,
    scan_prefix,
)
from jobboard.backends.rows import NewJob, Posted, PostOutcome, Ties, Verdict
from jobboard.backends.transition import Resolve
from jobboard.errors import BoardUnavailable
from jobboard.states import JobState

#: The event slot of what a step tells beside its postings.
_END_SLOT = 98


class Batches:
    """A step holds only if the board is as its plan assumed."""

    def __init__(
        self,
        connection: Connection,
        reader: JobReader,
        writer: JobWriter,
        lanes: Lanes,
        rules: LaneRules,
        leases: Leases,
        leftovers: Leftovers,
    ) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._reader, self._writer = reader, writer
        self._lanes, self._rules, self._leases = lanes, rules, leases
        self._leftovers = leftovers
        self._last_sequence = 0
        self._sequence_lock = threading.Lock()

    def plan(
        self, rows: Sequence[NewJob], existing: Existing, now: float, ending: StoredJob | None = None
    ) -> list[Step]:
        """Plan each posting of a batch, and what follows from them."""
        return Plan(existing, now, self._connection.latest(), ending).steps(rows)

    def write(
        self, change: Change, existing: Existing | None = None, tries: int = 1, seal: Mark | None = None
    ) -> bool | list[Posted]:
        """Carry out a change of a job together with what it posts; False, and nothing is done, if it can't be so.

        :param existing: what its postings meet; read if left out.
        :param seal: the mark of a graph that becomes complete, as it was read.
        :return: what has become of the postings, if they are refused: nothing is done then.
        """
        now, existing = self._connection.now(), existing or self.read(change.posts)[1]
        steps = self.plan(change.posts, existing, now, change.new)
        try:
            if any(step.outcome.refuses_batch for step in steps):
                return posted(steps) if existing.is_read else False
            if not self.flag_parents(existing, steps):
                return False
            txn = self.txn_of(steps, existing, now, tries, change)
            if seal is not None:
                self._seal(txn, seal, now)
            is_done = self.send(txn).succeeded
        finally:
            self._writer.claimed.forget(change.job.row.uuid)
            self._reader.orders.forget(change.job.row.uuid)
        if is_done:
            self.remember(steps)
        return is_done

    def remember(self, steps: Iterable[Step]) -> None:
        """Keep the places of jobs that were posted."""
        for step in steps:
            self._reader.orders.put(step.row.uuid, step.row.order)

    def send(self, txn: Txn) -> TxnResult:
        """Send a transaction of postings, however many operations it has; one that needs a lease that is gone fails."""
        txn.compares = list({compared_in(compare): compare for compare in txn.compares}.values())
        txn.then = many(txn.then, len(txn.compares), len(txn.apart))
        try:
            result = self._connection.send(txn)
        except LeaseNotFound:
            self._leases.forget_all()
            return TxnResult(False, 0, [])
        self._learn_sequence(result)
        if not result.succeeded:
            self._rules.note_failure(txn.compares)
        return result

    def txn_of(
        self, steps: Sequence[Step], existing: Existing, now: float, tries: int, ending: Change | None = None
    ) -> Txn:
        """Return the transaction of a plan; it changes nothing if the board is not as the plan assumed."""
        keys = self._keys
        txn = Txn(otherwise=[get(keys.sequence)])
        new = [step.row for step in steps if step.outcome is PostOutcome.POSTED]
        if new:
            self._number(new, now, tries)
            number = b"%020d" % new[-1].sequence
            txn.compares.append(less(keys.sequence, number))
            txn.then.append(put(keys.sequence, number))
        lanes = self._follow(txn, steps, now, ending)
        moved = [member for lane in lanes for member in lane.moved]
        old, after = self._contents(txn, steps, existing, moved, ending)
        txn.then += steps_between(old, after)
        txn.then += [op for lane in lanes for op in lane.ops(keys)]
        changed = [(step.row, step.told) for step in steps] + [(member.row, member.told) for member in moved]
        txn.apart += waits_ops(keys, {row.name for row, told in changed if told and waits_for_lane(row)})
        events = [event_of(row, note) for row, told in changed for note in told]
        wakes_at = self._connect(txn, steps, existing, ending)
        if wakes_at is not None and events:
            events[-1] = replace(events[-1], wakes_at=wakes_at)
        txn.then += event_ops(keys, events)
        if ending is not None:
            txn.then += [*ending.more_ops(keys), *event_ops(keys, ending.events, _END_SLOT)]
            txn.apart += ending.apart(keys)
        return txn

    def _contents(
        self,
        txn: Txn,
        steps: Sequence[Step],
        existing: Existing,
        moved: Sequence[Member],
        ending: Change | None,
    ) -> tuple[Content, Content]:
        """Return the keys of all jobs of a step before and after it; the transaction holds only if they are so."""
        keys, old, after = self._keys, Content(), Content()
        if ending is not None:
            txn.compares += ending.conditions(keys)
            lease = self._leases.for_records(ending.retention) if ending.is_complete else 0
            old, after = ending.contents(keys, lease)
        for step in steps:
            if step.outcome is PostOutcome.POSTED:
                txn.compares += self._compares_of(step.row, existing, ending)
            elif step.before is not None:
                txn.compares += step.before.unchanged(keys)
                old |= content_of(keys, step.before.row)
            else:
                continue
            lease = self._leases.for_records(0.0) if step.row.state is JobState.COMPLETE else 0
            after |= content_of(keys, step.row, lease) | kept_key(keys, step.row, lease)
        for member in moved:
            if member.job is not None:
                txn.compares += member.job.unchanged(keys)
                old |= content_of(keys, member.job.row)
                after |= content_of(keys, member.row)
        return old, after

    def _follow(self, txn: Txn, steps: Sequence[Step], now: float, ending: Change | None) -> list[LaneStep]:
        """Look at the lanes of a batch, once all of its jobs are changed; the transaction holds only if they are so."""
        tied = dict[str, dict[str, Member]]()
        if ending is not None and ending.lane is not None and ending.new is not None:
            tied[ending.lane] = {ending.new.uuid: Member(ending.job, ending.new, ending.told)}
        for step in steps:
            row, lane = step.row, step.row.lane
            if step.told and lane is not None and (step.before is not None or row.joined_lane is not None):
                of_lane = tied.setdefault(lane, {})
                earlier = of_lane.get(row.uuid)
                before = step.before if earlier is None else earlier.job
                waited = before is not None and waits_for_lane(before.row)
                of_lane[row.uuid] = Member(before, row, step.told, waits_for_lane(row) and not waited)
        if not tied:
            return []
        known = self._rules.known()
        room = MAX_BYTES - sum(size_of_row(step.row) for step in steps)
        members = {lane: list(each.values()) for lane, each in tied.items()}
        lanes = self._lanes.follow(known, members, now, room)
        txn.compares.append(known.condition)
        txn.compares += [compare for lane in lanes for compare in lane.compares(self._keys)]
        return lanes

    def _compares_of(self, row: StoredJob, existing: Existing, ending: Change | None) -> list[Compare]:
        new = absent(self._keys.job(row.uuid))
        if row.key is None:
            return [new]
        if ending is not None and (row.name, row.key) == (ending.job.row.name, ending.job.row.key):
            # The job that ends in this step has the key.
            return [new]
        place = self._keys.key(row.name, row.key)
        orphan = existing.orphans.get((row.name, row.key))
        return [new, absent(place) if orphan is None else modified_at(place, orphan.modified)]

    # -- parents and graphs ----------------------------------------------------------------------------------------

    def flag_parents(self, existing: Existing, steps: Sequence[Step]) -> bool:
        """Let the records of parents that may change yet say that they have children; False: they have changed by now.

        So the end of each leaves a mark. A parent whose postings are refused after all may say so for nothing.
        """
        uuids = {edge.parent for step in steps for edge in step.edges if edge.outcome is not Outcome.DONE}
        parents = [existing.parents[uuid] for uuid in sorted(uuids & existing.parents.keys())]
        return self.flag([job for job in parents if job.row.is_live or job.row.state is JobState.TRASHED], existing)

    def flag(self, jobs: Sequence[VersionedJob], existing: Existing) -> bool:
        """Let the records of these jobs say that they have children; what was read says so, too."""
        changes = list[Change]()
        for job in jobs:
            if job.row.ties is not None and job.row.ties.has_children:
                continue
            if job.row.newer is not None:
                raise BoardUnavailable(f"the record of job {job.row.uuid} is of a newer format; upgrade this client")
            row = replace(job.row, ties=replace(job.row.ties or Ties(), has_children=True))
            changes.append(Change(job, row, [], ops=tuple(_rewritten_claim(job, self._keys.claim(job.order)))))
        for start in range(0, len(changes), MAX_JOBS):
            part = changes[start : start + MAX_JOBS]
            done = self._writer.apply(part)
            for change in part:
                self._writer.claimed.forget(change.job.row.uuid)
            if not all(done):
                return False
        for change in changes:
            assert change.new is not None
            existing.parents[change.new.uuid] = replace(change.job, row=change.new)
        return True

    def compares_of_parents(
        self, existing: Existing, edges: Iterable[EdgeRow], changed: Collection[str] = ()
    ) -> list[Compare]:
        """Hold if these parents have not ended since; ``changed`` are those that the same step changes."""
        parents = [
            existing.parents[edge.parent]
            for edge in edges
            if edge.parent not in changed and edge.outcome in (Outcome.OPEN, Outcome.FAILED)
            if edge.parent in existing.parents
        ]
        return [present(job.record) for job in parents]

    def _connect(self, txn: Txn, steps: Sequence[Step], existing: Existing, ending: Change | None) -> float | None:
        """Write the edges of new jobs, and the marks of their graphs; return when the graphs are given up."""
        keys = self._keys
        edges = [edge for step in steps for edge in step.edges]
        if not edges:
            return None
        changed = {step.row.uuid for step in steps} | ({ending.job.row.uuid} if ending is not None else set())
        txn.compares += self.compares_of_parents(existing, edges, changed)
        txn.then += [op for edge in edges for op in edge_ops(keys, edge)]
        txn.then += [put(keys.kept_of(child), b"") for child in dict.fromkeys(edge.child for edge in edges)]
        due = self._connection.latest() + GRAPH_TTL
        graphs = list(dict.fromkeys(edge.parent for edge in edges if is_graph(edge.parent)))
        for graph in graphs:
            before = existing.graphs.get(graph)
            txn.compares.append(modified_at(keys.mark(graph), 0 if before is None else before.revision))
            txn.then += Mark(Resolve(graph, Outcome.GONE), due).ops(keys, before)
        return due if graphs else None

    def sealing(self, graph: str) -> tuple[Verdict, Mark | None]:
        """Return what becomes of a wish to seal a graph, and its mark; DONE: it can be sealed."""
        keys, parent, now = self._keys, parent_of_graph(graph), self._connection.now()
        stored, children = self._connection.read([get(keys.mark(parent)), scan_prefix(keys.children_of(parent), 1)])
        mark = mark_of(parent, stored.first)
        if mark is None:
            # All of its edges say how it has ended.
            ended = [child_edge(keys, kv).outcome for kv in children.kvs]
            return (Verdict.REPEATED if ended == [Outcome.DONE] else Verdict.LOST), None
        if mark.step.outcome is Outcome.DONE:
            return Verdict.REPEATED, mark
        return (Verdict.DONE if mark.due > now else Verdict.LOST), mark

    def _seal(self, txn: Txn, mark: Mark, now: float) -> None:
        txn.compares.append(mark.unchanged(self._keys))
        txn.then += Mark(Resolve(mark.step.parent, Outcome.DONE), now).ops(self._keys, mark)

    # -- sequences -------------------------------------------------------------------------------------------------

    def _number(self, rows: Sequence[StoredJob], now: float, tries: int) -> None:
        """Number new rows: from the server's time in microseconds, or behind the last number if that is larger.

        The transaction holds only if the last number in the store is smaller, so no counter is read first. Clients
        whose clocks agree seldom collide, and one whose clock is behind learns the last number when it is refused.
        """
        with self._sequence_lock:
            ahead = random.randint(0, 1000 << min(tries, 8)) if tries else 0
            first = max(round(now * 1_000_000), self._last_sequence + 1) + ahead
            for at, row in enumerate(rows):
                row.sequence = self._last_sequence = first + at
                # The queue goes by the number then, and so does whatever sorts by the place.
                row.place = max(row.place, row.sequence / 1e6)

    def _learn_sequence(self, result: TxnResult) -> None:
        """Learn the last number of the store from a refusal; create its key if there is none."""
        if result.succeeded:
            return
        send, key, last = self._connection.send, self._keys.sequence, next(result.found()).first
        if last is None:
            send(Txn([absent(key)], [put(key, b"%020d" % 0)]))
        elif last.value.isdigit() and int(last.value) < MAX_SEQUENCE:
            with self._sequence_lock:
                self._last_sequence = max(self._last_sequence, int(last.value))
        else:
            # The stored number can't be read. The present time is larger than all that were given.
            number = max(self._last_sequence, round(self._connection.now() * 1_000_000))
            send(Txn([modified_at(key, last.modified)], [put(key, b"%020d" % number)]))

    # -- what is on the board --------------------------------------------------------------------------------------

    def read(self, rows: Sequence[NewJob]) -> tuple[list[VersionedJob | None], Existing]:
        """Read what these postings may meet; return the jobs among that, which may be due, and all of it."""
        keys, rows = self._keys, with_follow_ups(rows)
        uuids = {keys.job(new.uuid): new.uuid for new in rows}
        names = {keys.key(new.name, new.key): (new.name, new.key) for new in rows if new.key is not None}
        parents = {keys.job(uuid): uuid for new in rows for uuid in new.parents}
        graphs = list(dict.fromkeys(new.graph for new in rows if new.graph is not None))
        places = list(dict.fromkeys([*uuids, *names, *parents]))
        marks = [op for graph in graphs for op in self._reads_of_graph(graph)]
        kept = [get(keys.kept_of(new.uuid), keys_only=True) for new in rows if needs_look([new])]
        found = self._connection.read([*map(get, places), *marks, *kept])
        pointers = kvs_of(found[: len(places)])
        self._forget_leftovers(pointers, found[len(places) + len(marks) :])
        orders = list(dict.fromkeys(pointer.value for pointer in pointers))
        jobs = self._reader.read_at(orders)
        job_at, existing, now = dict(zip(orders, jobs, strict=True)), Existing(True), self._connection.now()
        for pointer in pointers:
            job = job_at[pointer.value]
            if pointer.key in names:
                self._take_key(existing, names[pointer.key], pointer, job, now)
                continue
            if job is not None and pointer.key in uuids:
                existing.by_uuid[uuids[pointer.key]] = job
            if job is not None and parents.get(pointer.key) == job.row.uuid:
                existing.parents[job.row.uuid] = job
        of_graphs = found[len(places) : len(places) + len(marks)]
        for graph, mark, children in zip(graphs, of_graphs[::2], of_graphs[1::2], strict=True):
            known = existing.graphs[parent_of_graph(graph)] = mark_of(parent_of_graph(graph), mark.first)
            is_open = known is not None and known.is_waiting and known.due > now
            if not is_open and (known is not None or children.kvs):
                existing.given_up.add(graph)
        return jobs, existing

    def _forget_leftovers(self, pointers: Iterable[KeyValue], kept: Iterable[Found]) -> None:
        """Delete the edges of forgotten jobs of these uuids: the new ones would wait for their parents."""
        there = {pointer.key for pointer in pointers}
        uuids = [decoded(kv.last_part) for kv in kvs_of(kept)]
        self._leftovers.before_post([uuid for uuid in uuids if self._keys.job(uuid) not in there])

    def _take_key(
        self, existing: Existing, place: tuple[str, str], pointer: KeyValue, job: VersionedJob | None, now: float
    ) -> None:
        if job is not None and (job.row.is_live or job.row.keeps_key_for(now) > 0):
            existing.by_key[place] = job
        else:
            existing.orphans[place] = pointer

    def _reads_of_graph(self, graph: str) -> list[Op]:
        parent = parent_of_graph(graph)
        return [get(self._keys.mark(parent)), scan_prefix(self._keys.children_of(parent), 1, keys_only=True)]


def posted(steps: Sequence[Step]) -> list[Posted]:
    """Return what has become of postings."""
    return [Posted(step.outcome, step.row.view(), step.parent) for step in steps]


def _rewritten_claim(job: VersionedJob, key: bytes) -> Iterable[Op]:
    """Write the claim of a job again: every change of a claimed job does, so that its owner reads it anew."""
    return () if job.row.claim is None else (put(key, job.row.claim.packed()),)
