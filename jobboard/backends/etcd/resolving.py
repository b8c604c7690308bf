"""Works off the marks of parents: lets the edges to their children say how they stand, and settles the children."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from jobboard.backends import edges
from jobboard.backends.edge_rows import MAX_RESOLVED, MAX_RESOLVED_BYTES, Outcome, is_graph
from jobboard.backends.edges import Ended
from jobboard.backends.etcd.batches import Batches
from jobboard.backends.etcd.changes import Change, change_of
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.edge_records import (
    KINDS,
    Mark,
    child_edge,
    deletion_of_edge,
    edge_ops,
    letter_of,
    mark_of,
    parents_in,
    reads_of_ended,
    reads_of_mark,
    step_of,
)
from jobboard.backends.etcd.job_reader import JobReader
from jobboard.backends.etcd.job_writer import JobWriter
from jobboard.backends.etcd.layout import VersionedJob
from jobboard.backends.etcd.txn import Compare, Found, Op, Txn, after, none_newer, present, put, scan
from jobboard.backends.etcd.worker import Worker
from jobboard.errors import BoardUnavailable

logger = logging.getLogger("jobboard.etcd")

#: How many marks one part works off at most: each is compared.
_MAX_MARKS = 40

#: How many parts one call works off at most, and how many calls in the background follow one another.
_MAX_PARTS, _MAX_TURNS = 4, 1_000


@dataclass(slots=True)
class _Task:
    """What the marks of some parents ask for of one child: each mark, and what its edge says so far."""

    child: str
    edges: list[tuple[Mark, Outcome]] = field(default_factory=list)

    @property
    def own(self) -> set[str]:
        return {mark.step.parent for mark, _ in self.edges}


@dataclass(slots=True)
class _Standing:
    """How the other parents of a child stand: up to a few of each kind, without those of the task.

    :ivar open: its graph first, if that is open.
    """

    open: list[str]
    failed: list[str]
    gone: list[str]
    revision: int

    @property
    def is_in_graph(self) -> bool:
        """Whether its graph is open, so that nothing becomes of it yet."""
        return any(map(is_graph, self.open[:1]))

    def with_marks(self, task: _Task) -> Ended:
        """Return how all of them stand once the edges of a task are written."""
        kinds = {Outcome.OPEN: self.open, Outcome.FAILED: self.failed, Outcome.GONE: self.gone}
        found = {outcome: next(iter(parents), None) for outcome, parents in kinds.items()}
        for mark, _ in task.edges:
            if mark.step.outcome in found and not (is_graph(mark.step.parent) and mark.step.outcome is Outcome.GONE):
                found[mark.step.outcome] = found[mark.step.outcome] or mark.step.parent
        is_dropped = any(mark.is_waiting for mark, _ in task.edges)
        return Ended(found[Outcome.OPEN], found[Outcome.FAILED], found[Outcome.GONE], is_dropped)


class Resolver:
    """Each part is one transaction, which holds only if the marks are as they were read.

    Two parents of a child that end at once: a transaction that leaves the child waiting compares that a parent which
    holds it back is still there. So one of the two sees that there is none.
    """

    def __init__(
        self, connection: Connection, reader: JobReader, writer: JobWriter, batches: Batches, worker: Worker
    ) -> None:
        self._connection = connection
        self._keys = connection.keys
        self._reader, self._writer, self._batches, self._worker = reader, writer, batches, worker

    def carry_out(self, changes: Sequence[Change]) -> list[Change]:
        """Carry changes out, each with what it posts, as far as their jobs are as they were read; return those."""
        together = [change for change in changes if not change.posts]
        done = [change for change, is_done in zip(together, self._writer.apply(together), strict=True) if is_done]
        done += [change for change in changes if change.posts and self._batches.write(change) is True]
        self.after(done)
        return done

    def after(self, changes: Sequence[Change], graphs: Sequence[str] = ()) -> None:
        """Work off a first part of what these changes, and the ends of graphs, have left to do.

        The worker's thread goes on.
        """
        parents = [*(change.resolve.parent for change in changes if change.resolve is not None), *graphs]
        if not parents:
            return
        try:
            rest = self.resolve(parents)
        except BoardUnavailable as error:
            # The changes are made: whoever comes next works off their marks.
            logger.debug("marks are left to others: %s", error)
            rest = parents
        if rest:
            self._worker.soon(lambda: self._go_on(rest, _MAX_TURNS))

    def _go_on(self, parents: Sequence[str], turns: int) -> None:
        """Go on in turn with other tasks of the thread; what is left in the end is left to whoever comes next."""
        rest = self.resolve(parents)
        if rest and turns:
            self._worker.soon(lambda: self._go_on(rest, turns - 1))

    def resolve(self, parents: Sequence[str]) -> list[str]:
        """Work off a bounded part; return the parents that have more, and those that have ended by it."""
        rest = list(dict.fromkeys(parents))
        for _ in range(_MAX_PARTS):
            part, behind = rest[:_MAX_MARKS], rest[_MAX_MARKS:]
            rest = [*behind, *self._part(part)]
            if not rest:
                break
        return rest

    def _part(self, parents: Sequence[str]) -> list[str]:
        """Work off a part of these marks; return the parents that have more, and those that have ended by it."""
        marks, tasks, closing, rest = self._read(parents)
        if not marks:
            return []
        changes, others = self._decide(tasks)
        alone = [change for change in changes if change.posts]
        together = [change for change in changes if not change.posts]
        is_done = all(self._batches.write(change) is True for change in alone)
        steps = Txn([mark.unchanged(self._keys) for mark in marks], closing)
        if not self._writer.apply_with(together, others, steps) or not is_done:
            return [mark.step.parent for mark in marks]
        return [*rest, *(change.resolve.parent for change in changes if change.resolve is not None)]

    # -- reading -------------------------------------------------------------------------------------------------------

    def _read(self, parents: Sequence[str]) -> tuple[list[Mark], list[_Task], list[Op], list[str]]:
        """Return the marks to work off, what they ask for, what is written at the end, and the parents with more."""
        keys, now = self._keys, self._connection.now()
        reads = [op for parent in parents for op in reads_of_mark(keys, parent, MAX_RESOLVED)]
        found = self._connection.read(reads)
        known = [mark_of(parent, part.first) for parent, part in zip(parents, found[::2], strict=True)]
        self._replace_damaged([mark for mark in known if mark is not None and not mark.is_readable])
        ready = [
            (mark, children)
            for mark, children in zip(known, found[1::2], strict=True)
            if mark is not None and not (mark.is_waiting and mark.due > now)
        ]
        marks, closing, rest = list[Mark](), list[Op](), list[str]()
        tasks, left, room = dict[str, _Task](), MAX_RESOLVED, MAX_RESOLVED_BYTES
        for mark, children in self._behind_cursors(ready):
            most = min(left, edges.largest_part(mark.step.result), max(1, room // max(1, len(mark.step.result or b""))))
            if not most:
                rest.append(mark.step.parent)
                continue
            part = children.kvs[:most]
            for edge in (child_edge(keys, kv) for kv in part):
                if edge.outcome is not mark.step.outcome:
                    tasks.setdefault(edge.child, _Task(edge.child)).edges.append((mark, edge.outcome))
                    left, room = left - 1, room - len(mark.step.result or b"")
            left = max(0, left)
            marks.append(mark)
            if len(part) < children.total:
                rest.append(mark.step.parent)
                mark.cursor = part[-1].last_part
                closing.append(put(keys.mark(mark.step.parent), mark.packed()))
            else:
                closing += mark.gone(keys)
        return marks, list(tasks.values()), closing, rest

    def _replace_damaged(self, marks: Sequence[Mark]) -> None:
        """Let marks that can't be read say how their parents stand."""
        parents = [mark.step.parent for mark in marks]
        for mark, job in zip(marks, self._reader.read(parents) if parents else [], strict=True):
            mark.step = step_of(mark.step.parent, None if job is None else job.row.seen())

    def _behind_cursors(self, ready: Sequence[tuple[Mark, Found]]) -> list[tuple[Mark, Found]]:
        """Read the children behind the cursors of marks that have one."""
        keys = self._keys
        begun = [mark for mark, _ in ready if mark.cursor]
        if not begun:
            return list(ready)
        ops = []
        for mark in begun:
            prefix = keys.children_of(mark.step.parent)
            ops.append(scan(prefix + mark.cursor + b"\0", after(prefix), MAX_RESOLVED))
        behind = iter(self._connection.read(ops))
        return [(mark, next(behind) if mark.cursor else children) for mark, children in ready]

    # -- decisions -----------------------------------------------------------------------------------------------------

    def _decide(self, tasks: Sequence[_Task]) -> tuple[list[Change], list[Txn]]:
        """Return the changes of children, and what is written of those that do not change."""
        if not tasks:
            return [], []
        keys = self._keys
        ops = [op for task in tasks for op in reads_of_ended(keys, task.child, len(task.edges) + 3)]
        found = self._connection.read(ops)
        standings = [_standing(task, found[KINDS * at : KINDS * (at + 1)]) for at, task in enumerate(tasks)]
        unsure = [task.child for task, standing in zip(tasks, standings, strict=True) if not _must_wait(task, standing)]
        jobs = dict(zip(unsure, self._reader.read(unsure), strict=True)) if unsure else {}
        changes, others = list[Change](), list[Txn]()
        # One moment for all: those that are claimable then keep the order of their postings.
        now = self._connection.now()
        for task, standing in zip(tasks, standings, strict=True):
            if task.child not in jobs:
                others.append(self._waiting(task, standing))
                continue
            decided = self._decide_on(task, standing, jobs[task.child], now)
            if isinstance(decided, Change):
                changes.append(decided)
            else:
                others.append(decided)
        return changes, others

    def _decide_on(self, task: _Task, standing: _Standing, job: VersionedJob | None, now: float) -> Change | Txn:
        if job is None or job.row.uuid != task.child:
            return Txn(self._marks_of(task), self._forgetting(task))
        row = job.row.seen()
        waits = row.ties is not None and row.ties.has_parents
        if not edges.may_wait(row):
            # It may be open again only for those that wait, or do so again.
            task.edges = [(mark, before) for mark, before in task.edges if mark.step.outcome is not Outcome.OPEN]
        transition = edges.settle(row, standing.with_marks(task), now)
        # The record is read after the edges: who has linked the job to another parent meanwhile has written it.
        as_seen = none_newer(job.record, job.record + b"\0", standing.revision)
        if transition is not None:
            change = change_of(job, row, transition)
            change.compares, change.ops = (*self._marks_of(task), as_seen), tuple(self._ops_of(task))
            return change
        if not waits:
            return Txn([*self._marks_of(task), present(job.record)], self._ops_of(task))
        txn = self._waiting(task, standing)
        # Who completes the graph at the same moment has to decide anew.
        touched = [put(job.record, job.row.packed())] if standing.is_in_graph else []
        return Txn([*txn.compares, *job.unchanged(self._keys), as_seen], [*txn.then, *touched])

    def _waiting(self, task: _Task, standing: _Standing) -> Txn:
        """Return what is written of a child that goes on waiting, as long as what it waits for is there."""
        keys, held = self._keys, list[Compare]()
        for outcome, parents in ((Outcome.OPEN, standing.open), (Outcome.FAILED, standing.failed)):
            if parents:
                # Any of them serves: those that end at once seldom choose the same one. But the graph goes first.
                parent = parents[0] if standing.is_in_graph else random.choice(parents)
                held = [present(keys.edge(task.child, letter_of(parent, outcome), parent))]
                break
        return Txn([*self._marks_of(task), *held], self._ops_of(task))

    def _marks_of(self, task: _Task) -> list[Compare]:
        return [mark.unchanged(self._keys) for mark, _ in task.edges]

    def _ops_of(self, task: _Task) -> list[Op]:
        keys, child = self._keys, task.child
        return [
            op
            for mark, before in task.edges
            for op in (
                deletion_of_edge(keys, child, mark.step.parent, before)
                if mark.step.outcome is Outcome.NEVER
                else edge_ops(keys, mark.edge(child), before)
            )
        ]

    def _forgetting(self, task: _Task) -> list[Op]:
        """Delete the edges of a job that is forgotten."""
        pairs = ((mark.step.parent, before) for mark, before in task.edges)
        return [op for pair in pairs for op in deletion_of_edge(self._keys, task.child, *pair)]


def _standing(task: _Task, found: Sequence[Found]) -> _Standing:
    own = task.own
    graph, open_, failed, gone = ([parent for parent in parents_in(part) if parent not in own] for part in found)
    return _Standing([*graph, *open_], failed, gone, found[0].revision)


def _must_wait(task: _Task, standing: _Standing) -> bool:
    """Whether a child goes on waiting, whatever its record says: its parents are done but for one that is open."""
    return bool(standing.open) and all(
        mark.step.outcome is Outcome.DONE and not is_graph(mark.step.parent) for mark, _ in task.edges
    )
