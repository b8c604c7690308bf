"""Plans what becomes of the postings of a step, given what is on the board."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from jobboard.backends import edges, follow_ups, lifecycle
from jobboard.backends.edge_rows import EdgeRow, Outcome, parent_of_graph
from jobboard.backends.etcd.edge_records import Mark, ended_of
from jobboard.backends.etcd.layout import VersionedJob
from jobboard.backends.etcd.stored import StoredJob
from jobboard.backends.etcd.txn import KeyValue
from jobboard.backends.outcomes import edge_to
from jobboard.backends.posting_plan import PostingPlan
from jobboard.backends.rows import NewJob, PostOutcome, Ties
from jobboard.backends.ties import ties_of
from jobboard.backends.transition import Note, Transition
from jobboard.events import HISTORY_LENGTH


@dataclass(slots=True)
class Existing:
    """What there is on the board that a batch may meet; ``is_read`` False: nothing is known yet.

    :ivar orphans: keys that name no job which has them any more, as they are stored.
    :ivar parents: the jobs that postings wait for, by their uuids.
    :ivar graphs: the graphs that postings are parts of, and their marks, if they have any.
    :ivar given_up: those of them that can't become complete.
    """

    is_read: bool = False
    by_uuid: dict[str, VersionedJob] = field(default_factory=dict)
    by_key: dict[tuple[str, str], VersionedJob] = field(default_factory=dict)
    orphans: dict[tuple[str, str], KeyValue] = field(default_factory=dict)
    parents: dict[str, VersionedJob] = field(default_factory=dict)
    graphs: dict[str, Mark | None] = field(default_factory=dict)
    given_up: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Step:
    """What to do for one posting: ``row`` is the job that it leads to, ``before`` that job as read, if it changes.

    :ivar edges: those of a new job.
    :ivar parent: the parent for which it is refused.
    """

    outcome: PostOutcome
    row: StoredJob
    before: VersionedJob | None = None
    told: list[Note] = field(default_factory=list)
    edges: list[EdgeRow] = field(default_factory=list)
    parent: str | None = None


def needs_look(rows: Sequence[NewJob]) -> bool:
    """Whether a batch can't be posted before the board was read."""
    return any(new.parents or new.graph is not None for new in rows)


def with_follow_ups(rows: Sequence[NewJob]) -> list[NewJob]:
    """Return postings, and those that follow if a new job goes to the trash at once, since a parent of it is gone."""
    more = []
    for new in rows:
        if new.parents and new.ties is not None and new.ties.on_trashed is not None:
            try:
                more.append(follow_ups.unpack(new.ties.on_trashed, new.uuid, 0))
            except ValueError:
                continue
    return [*rows, *more]


class Plan:
    """Plans the postings of a batch, each as if those before it were done.

    :param ending: a job that ends in the same step, as it is then: its key is free, unless it keeps it.
    """

    def __init__(self, existing: Existing, now: float, latest: float, ending: StoredJob | None = None) -> None:
        self._existing = existing
        self._now, self._slack = now, latest - now
        found = [*existing.by_uuid.values(), *existing.by_key.values(), *existing.parents.values()]
        self._before = {job.row.uuid: job for job in found}
        self._seen = {uuid: job.row.seen() for uuid, job in self._before.items()}
        if ending is not None:
            self._seen[ending.uuid] = ending
        self._by_key = {
            key: row
            for key, job in existing.by_key.items()
            if (row := self._seen[job.row.uuid]).is_live or row.keeps_key_for(now) > 0
        }
        if ending is not None and ending.key is not None and ending.keeps_key_for(now) > 0:
            self._by_key[ending.name, ending.key] = ending
        by_uuid = {uuid: self._seen[job.row.uuid] for uuid, job in existing.by_uuid.items()}
        self._plan = PostingPlan(by_uuid.get, self._by_key.get, self._draft, self._missing)
        #: The rows of the batch, by the uuids of their postings.
        self._new: dict[str, StoredJob] = {}

    def _draft(self, new: NewJob) -> StoredJob:
        ties = ties_of(new, self._now)
        return StoredJob(new.uuid, new.name, new.priority, 0, self._now, new.body, new.key, ties=ties)

    def _missing(self, new: NewJob, _batch: Collection[str]) -> str | None:
        if new.graph is not None and new.graph in self._existing.given_up:
            return new.graph
        return next((uuid for uuid in new.parents if self._parent(uuid) is None), None)

    def _parent(self, uuid: str) -> StoredJob | None:
        """Return a parent as it is now: one of the batch, or one on the board."""
        return self._new.get(uuid) or self._seen.get(uuid)

    def steps(self, rows: Sequence[NewJob]) -> list[Step]:
        """Plan postings in their order; what follows from them stands behind them."""
        steps, posts = list[Step](), list[NewJob]()
        for new in rows:
            step, following = self._step(new)
            steps.append(step)
            posts += following
        for new in posts:
            # What follows a job that was posted in this step has no parents.
            steps.append(self._step(new)[0])
        return steps

    def _step(self, new: NewJob) -> tuple[Step, tuple[NewJob, ...]]:
        """Plan a posting; if it changes a row, all steps that lead to this row have it as changed."""
        outcome, row = self._plan.step(new)
        if outcome is PostOutcome.REPLACED and row.newer is not None:
            return Step(PostOutcome.TAKEN, row), ()
        if outcome not in (PostOutcome.REPLACED, PostOutcome.POSTED):
            return Step(outcome, row, parent=self._plan.missing.get(new.uuid)), ()
        if new.key_for is not None and new.key is not None:
            row.key_until = self._now + self._slack + new.key_for
        self._new[new.uuid] = row
        if outcome is PostOutcome.REPLACED:
            before = self._before.pop(row.uuid, None)
            transition = lifecycle.replace(row, new, self._now, self._slack)
            row.aliases = (*row.aliases, new.uuid)[-HISTORY_LENGTH:]
            row.add_history(transition.history)
            return Step(outcome, row, before, list(transition.told)), ()
        transition = lifecycle.post(row, new, self._now, self._slack)
        row.add_history(transition.history)
        step = Step(outcome, row, None, list(transition.told), self._edges_of(new))
        settled = edges.settle(row, ended_of(step.edges), self._now) if step.edges else None
        return step, () if settled is None else self._take(step, settled)

    def _take(self, step: Step, settled: Transition[None]) -> tuple[NewJob, ...]:
        """Add what follows for a new job from how its parents stand."""
        step.row.add_history(settled.history)
        step.told += settled.told
        step.row.end(self._now, 0.0)
        return settled.posts

    def _edges_of(self, new: NewJob) -> list[EdgeRow]:
        """Return the edges of a new job; each parent that may change yet says that it has children."""
        found = [] if new.graph is None else [EdgeRow(new.uuid, parent_of_graph(new.graph), Outcome.OPEN)]
        for uuid in dict.fromkeys(new.parents):
            parent = self._parent(uuid)
            assert parent is not None
            edge = edge_to(new.uuid, parent)
            if edge.outcome in (Outcome.OPEN, Outcome.FAILED):
                parent.ties = replace(parent.ties or Ties(), has_children=True)
            found.append(edge)
        return found
