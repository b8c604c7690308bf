"""Writes what was decided about jobs: what belongs together stands in one transaction."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from jobboard.backends.errors import after_a_change
from jobboard.backends.rows import NewJob, Refused
from jobboard.backends.zookeeper.errors import Conflict
from jobboard.backends.zookeeper.lane_limits import KnownLimits
from jobboard.backends.zookeeper.lanes import Lanes, LaneStep
from jobboard.backends.zookeeper.new_edges import NewEdges
from jobboard.backends.zookeeper.posting_batch import Batch
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.backends.zookeeper.transactions import MAX_BYTES, MAX_JOBS, SentTransaction, Transaction, Transactions

Answer = TypeVar("Answer")

#: How many jobs of one lane one transaction changes, beside those that a look moves.
MAX_OF_LANE = 50


#: Adds to a transaction what else is written in it.
Also = Callable[[Transaction], None]


class Write(enum.Enum):
    """What is done to a job's znode."""

    NOTHING = "nothing"
    UPDATE = "update"
    DELETE = "delete"


@dataclass
class Decided(Generic[Answer]):
    """A decision about one job: the answer, and what the job is now.

    ``is_fresh``: the job was read for it, instead of remembered. ``also``: adds what else is written with the job.
    """

    uuid: str
    answer: Answer
    job: StoredJob | None
    write: Write
    is_fresh: bool
    also: Also | None = None


#: A decision, and the job that it changes.
Changed = tuple[Decided[Answer], StoredJob]


@dataclass
class Unit(Generic[Answer]):
    """What is written together or not at all: changes of jobs, what looks at their lanes make of these, and a batch.

    ``also``: adds what else is written.
    """

    changed: list[Changed[Answer]]
    lanes: list[LaneStep] = field(default_factory=list)
    batch: Batch | None = None
    also: Also | None = None

    @property
    def is_alone(self) -> bool:
        """Whether it has a transaction of its own after a conflict."""
        return bool(self.lanes) or self.batch is not None

    @property
    def moved(self) -> list[StoredJob]:
        return [job for lane in self.lanes for job in lane.moved]

    @property
    def jobs(self) -> list[StoredJob]:
        return [*(job for _, job in self.changed), *self.moved, *(self.batch.read if self.batch is not None else ())]

    def parents(self, now: float) -> list[str]:
        """Return the parents and graphs whose edges are to be told how they stand, once it is written."""
        graphs = [] if self.batch is None else self.batch.plan.edges.due(now)
        return [*(job.uuid for job in self.jobs if job.mark is not None), *graphs]


class BatchPoster(Protocol):
    """Posts what follows the ends of jobs."""

    def follow(
        self, ending: Sequence[StoredJob], posts: Sequence[NewJob], seals: Sequence[str], edges: NewEdges | None
    ) -> Batch | Refused:
        """Plan what is posted in the step that ends these jobs, and which graphs are complete with it.

        :param edges: what else the step makes of edges.
        """

    def prepare(self, batch: Batch, lanes: Sequence[LaneStep]) -> None:
        """See to what must exist before a batch is written."""

    def write(self, transaction: Transaction, batch: Batch) -> None:
        """Add a batch to a transaction."""


class ParentResolver(Protocol):
    """Tells edges how parents stand."""

    def work_off_own(self, parents: Sequence[str]) -> None:
        """Tell edges how these parents stand, which this client has changed, as far as one client does at a time."""


class JobRemains(Protocol):
    """Deletes what forgotten jobs leave."""

    def clean_own(self, uuids: Sequence[str]) -> None:
        """Delete what these jobs have left, which this client has deleted, as far as that works."""


class UnitWriter:
    """Plans units, and writes them. What it hands on to others is set once all collaborators are there."""

    poster: BatchPoster
    resolver: ParentResolver
    remains: JobRemains

    def __init__(self, transactions: Transactions, lanes: Lanes, clock: Callable[[], float]) -> None:
        self._transactions, self._lanes, self._now = transactions, lanes, clock

    # -- units -----------------------------------------------------------------------------------------------------

    def units(self, changed: Sequence[Changed[Answer]], known: KnownLimits | None) -> list[Unit[Answer]]:
        """Return what is written together, once the lanes of changed jobs are looked at.

        What is left out is decided on again. What posts what is refused becomes a refusal, and nothing is written.

        :raises Conflict: a job, or a limit, is another one by now.
        """
        units: list[Unit[Answer]] = []
        tied: dict[str, list[Changed[Answer]]] = {}
        for one, job in changed:
            if job.posts or job.seal is not None:
                units += self._following([(one, job)], known)
            elif job.followed_lane is None:
                units.append(Unit([(one, job)]))
            elif len(tied.setdefault(job.followed_lane, [])) < MAX_OF_LANE:
                tied[job.followed_lane].append((one, job))
        if tied and known is not None:
            lanes = self._lanes.look(known, {lane: [job for _, job in part] for lane, part in tied.items()})
            units += [Unit(tied[lane.text], [lane]) for lane in lanes]
        return units

    def _unit(
        self, changed: Sequence[Changed[Answer]], known: KnownLimits | None, edges: NewEdges | None = None
    ) -> Unit[Answer]:
        """Return changes that are written together, none of which asks for what may be refused."""
        if edges is not None or any(job.posts for _, job in changed):
            (unit,) = self._following(changed, known, edges)
            return unit
        return Unit(list(changed), self._lanes.look_after([job for _, job in changed], known=known))

    def _following(
        self, changed: Sequence[Changed[Answer]], known: KnownLimits | None, edges: NewEdges | None = None
    ) -> list[Unit[Answer]]:
        ending = [job for _, job in changed]
        posts = [new for job in ending for new in job.posts]
        batch = self.poster.follow(ending, posts, [job.seal for job in ending if job.seal is not None], edges)
        if isinstance(batch, Refused):
            answer: Any = batch
            for one, _ in changed:
                one.answer, one.write = answer, Write.NOTHING
            return []
        lanes = self._lanes.look_after([*ending, *(job for _, _, job in batch.postings)], batch.known, known)
        return [Unit(list(changed), lanes, batch)]

    # -- writing ---------------------------------------------------------------------------------------------------

    def carry_out(self, units: Sequence[Unit[Answer]], gone: set[str], is_again: bool) -> list[Decided[Answer]]:
        """Send all transactions before the first answer is awaited, and return what they have done."""
        self._prepare(units)
        sent: list[tuple[list[Unit[Answer]], SentTransaction, list[str]]] = []
        done: list[Decided[Answer]] = []
        parents: list[str] = []
        # One transaction with all of it takes effect as a whole, or not at all.
        with after_a_change(lambda: sent and len(sent[0][0]) < len(units)):
            for part, transaction in self._send(units, gone, is_again):
                # The answer makes the jobs forget what was written.
                now = self._now()
                sent.append((part, transaction, [parent for unit in part for parent in unit.parents(now)]))
            for part, transaction, ended in sent:
                if self._finish(transaction, gone):
                    done += [one for unit in part for one, _ in unit.changed]
                    parents += ended
        if parents:
            self.resolver.work_off_own(parents)
        deleted = [one.job for one in done if one.write is Write.DELETE and one.job is not None]
        if any(job.leaves_folders for job in deleted):
            self.remains.clean_own([job.uuid for job in deleted if job.leaves_folders])
        return done

    def write_together(
        self,
        jobs: Sequence[StoredJob],
        known: KnownLimits | None,
        edges: NewEdges | None = None,
        also: Also | None = None,
    ) -> list[str] | None:
        """Write changed jobs together; return the parents whose edges are to be told then how they stand.

        :param known: the limits that the jobs were changed under.
        :param edges: edges that are made with them.
        :param also: adds what else is written.
        :return: None, and nothing is written, if another client was faster.
        """
        try:
            unit = self._unit([(Decided(job.uuid, None, job, Write.UPDATE, True), job) for job in jobs], known, edges)
        except Conflict as conflict:
            self._lanes.note_conflict(conflict)
            return None
        unit.also = also
        # The answer makes the jobs forget what was written.
        ended = unit.parents(self._now())
        self._prepare([unit])
        ((_, transaction),) = self._send([unit], set(), True)
        return ended if self._finish(transaction, set()) else None

    def _prepare(self, units: Sequence[Unit[Answer]]) -> None:
        """Make what the transactions need: the parents of new keys and guards, and znodes for long values."""
        changed = [each for unit in units for each in unit.changed]
        self._transactions.create_parents_of_keys([job for _, job in changed])
        self._transactions.create_parents_of_guards([lane for unit in units for lane in unit.lanes])
        self._transactions.move_out_long_values([job for one, job in changed if one.write is Write.UPDATE])
        for unit in units:
            if unit.batch is not None:
                self.poster.prepare(unit.batch, unit.lanes)

    def _send(
        self, units: Sequence[Unit[Answer]], gone: set[str], is_again: bool
    ) -> Iterator[tuple[list[Unit[Answer]], SentTransaction]]:
        """Send what was decided in as few transactions as it takes; after a conflict, each lane in one of its own."""
        rest = list(reversed(units))
        while rest:
            transaction = self._transactions.begin(gone)
            jobs = [job for unit in rest for job in unit.jobs]
            if jobs:
                self._transactions.check_not_deleted(transaction, jobs)
            part: list[Unit[Answer]] = []
            while rest and transaction.jobs < MAX_JOBS and transaction.size < MAX_BYTES:
                if part and ((is_again and rest[-1].is_alone) or rest[-1].batch is not None):
                    break
                part.append(rest.pop())
                self._add(transaction, part[-1])
                if part[-1].batch is not None:
                    break
            yield part, self._transactions.send(transaction)

    def _add(self, transaction: Transaction, unit: Unit[Answer]) -> None:
        self._transactions.write_guards(transaction, unit.lanes)
        for one, job in unit.changed:
            if one.also is not None:
                one.also(transaction)
            if one.write is Write.DELETE:
                self._transactions.delete_job(transaction, job)
            else:
                self._transactions.write_job(transaction, job)
        for job in unit.moved:
            self._transactions.write_job(transaction, job)
        if unit.also is not None:
            unit.also(transaction)
        if unit.batch is not None:
            self.poster.write(transaction, unit.batch)

    def _finish(self, sent: SentTransaction, gone: set[str]) -> bool:
        """Wait for what a transaction has done: all of its part, or nothing if another client was faster."""
        try:
            self._transactions.finish(sent)
        except Conflict as conflict:
            if conflict.is_gone:
                gone.add(conflict.path)
            self._lanes.note_conflict(conflict)
            self._transactions.mend_parents(conflict)
            return False
        return True
