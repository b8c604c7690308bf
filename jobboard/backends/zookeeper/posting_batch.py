"""A batch of postings: planned as a whole, and carried out on the jobs, before anything is written."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count

from jobboard.backends import lifecycle
from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.posting_plan import PostingPlan
from jobboard.backends.rows import NewJob, Posted, PostOutcome
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.new_edges import NewEdges
from jobboard.backends.zookeeper.stored_job import THIS, StoredJob, new_job
from jobboard.states import JobState

#: What becomes of a posting, and the job that it is about.
Step = tuple[PostOutcome, StoredJob]


class Plan:
    """The postings of a batch, the jobs that their uuids and keys lead to, and their parents.

    :param ending: the jobs that end in the same step, as they are then.
    """

    def __init__(
        self, rows: Sequence[NewJob], clock: ServerClock, layout: Layout, ending: Sequence[StoredJob] = ()
    ) -> None:
        self.rows = rows
        self.by_uuid: dict[str, StoredJob] = {}
        self.by_key: dict[tuple[str, str], StoredJob] = {}
        self.ending = {job.uuid: job for job in ending}
        self.parents: dict[str, StoredJob] = dict(self.ending)
        self.edges = NewEdges(layout, self.ending)
        self._now, self._slack = clock.now(), clock.slack

    @property
    def has_family(self) -> bool:
        """Whether a posting waits for parents or for its graph."""
        return any(new.parents or new.graph is not None for new in self.rows)

    @property
    def unknown_parents(self) -> list[str]:
        """The uuids of parents that are neither in the batch nor known yet."""
        uuids = (uuid for new in self.rows for uuid in new.parents)
        known = {*self.parents, *(new.uuid for new in self.rows)}
        return [uuid for uuid in dict.fromkeys(uuids) if uuid not in known]

    def carry_out(self) -> Batch:
        """Say what becomes of each posting, and do it on the jobs; if one is refused, nothing is done."""
        place = count()
        planned = PostingPlan(
            self.by_uuid.get, self.by_key.get, lambda new: new_job(new, next(place), self._now), self._missing
        )
        batch = Batch(self, [planned.step(new) for new in self.rows], planned.missing)
        if not batch.is_refused:
            jobs = {new.uuid: job for new, (_, job) in zip(self.rows, batch.steps, strict=True)}
            for new, outcome, job in batch.postings:
                self._change(new, outcome, job, jobs)
        return batch

    def _missing(self, new: NewJob, batch: Collection[str]) -> str | None:
        if new.graph is not None and self.edges.is_given_up(new.graph, self._now):
            return new.graph
        return next((uuid for uuid in new.parents if uuid not in self.parents and uuid not in batch), None)

    def _change(self, new: NewJob, outcome: PostOutcome, job: StoredJob, jobs: dict[str, StoredJob]) -> None:
        if new.key_for is not None:
            job.key_until = self._now + self._slack + new.key_for
        if outcome is PostOutcome.REPLACED:
            job.apply(partial(lifecycle.replace, job, new, self._now, self._slack), self._now)
            job.add_alias(new.uuid)
            return
        job.apply(partial(lifecycle.post, job, new, self._now, self._slack), self._now)
        if new.parents or new.graph is not None:
            parents = [jobs.get(uuid) or self.parents[uuid] for uuid in new.parents]
            self.edges.connect(job, parents, new.graph, self._now)
        if job.state is not JobState.DELAYED:
            job.place = THIS


@dataclass(slots=True)
class Batch:
    """What has become of each posting; ``missing`` are the parents that the board does not know, by posting."""

    plan: Plan
    steps: list[Step]
    missing: dict[str, str]

    @property
    def is_refused(self) -> bool:
        """Whether nothing of it is posted."""
        return any(outcome.refuses_batch for outcome, _ in self.steps)

    @property
    def postings(self) -> list[tuple[NewJob, PostOutcome, StoredJob]]:
        """The postings that change something, with their outcomes and the jobs that they change."""
        return [
            (new, outcome, job)
            for new, (outcome, job) in zip(self.plan.rows, self.steps, strict=True)
            if outcome in (PostOutcome.POSTED, PostOutcome.REPLACED)
        ]

    @property
    def known(self) -> list[StoredJob]:
        """The jobs of it that were on the board before, each once; those without a zxid are new in this very batch."""
        replaced = (job for _, outcome, job in self.postings if outcome is PostOutcome.REPLACED and job.zxid)
        return list({job.uuid: job for job in (*replaced, *self.plan.edges.written.values())}.values())

    @property
    def read(self) -> list[StoredJob]:
        """The jobs that must not be deleted meanwhile."""
        return [*self.known, *self.plan.edges.checked.values()]

    @property
    def follow_ups(self) -> list[NewJob]:
        """What follows those of its jobs that are in the trash at once, since a parent of them is gone."""
        known = {new.uuid for new in self.plan.rows}
        return [new for _, _, job in self.postings for new in job.posts if new.uuid not in known]

    def answers(self, jobs: dict[str, StoredJob], count: int) -> list[Posted]:
        """Return the answers for the first ``count`` postings.

        :param jobs: those that were read again.
        """
        return [
            Posted(outcome, jobs.get(job.uuid, job).copy(), self.missing.get(new.uuid))
            for new, (outcome, job) in zip(self.plan.rows[:count], self.steps, strict=False)
        ]
