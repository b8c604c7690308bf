"""Batches of postings, each a part of a transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace as replace_fields
from typing import Any

from jobboard.backends import lifecycle
from jobboard.backends.edge_rows import parent_of_graph
from jobboard.backends.edges import settle
from jobboard.backends.posting_plan import PostingPlan
from jobboard.backends.rows import IfExists, JobRow, NewJob, Posted, PostOutcome, Ties
from jobboard.backends.sql import job_statements, journal_statements, lanes, marks, new_edges, windows
from jobboard.backends.sql.journal_lines import journal_line
from jobboard.backends.sql.lane_looks import LaneStep
from jobboard.backends.sql.new_edges import NewEdges, is_parent
from jobboard.backends.sql.rows import columns_of, job_of
from jobboard.backends.sql.transaction import Transaction, Undone
from jobboard.backends.sql.writing import write_changes
from jobboard.backends.transition import Transition
from jobboard.states import LIVE

#: The outcomes after which the job has the posting's content.
_POSTED = {PostOutcome.POSTED, PostOutcome.REPLACED}


class BatchRefused(Undone):
    """An outcome refuses a batch, so that nothing of it was posted."""

    def __init__(self, answers: list[Posted]) -> None:
        self.answers = answers


def post_all(transaction: Transaction, rows: Sequence[NewJob]) -> list[Posted]:
    """Post a batch as part of a transaction.

    :raises BatchRefused: nothing was posted.
    """
    return _Batch(transaction, rows).post()


def post_beside_others(transaction: Transaction, rows: Sequence[NewJob]) -> list[Posted]:
    """Post a batch likewise, a key of which another transaction has posted since this one began.

    :raises BatchRefused: nothing was posted.
    """
    return _BatchBesideOthers(transaction, rows).post()


class _Batch:
    """Postings that go onto the board together; one statement inserts all new jobs."""

    def __init__(self, transaction: Transaction, postings: Sequence[NewJob]) -> None:
        self._transaction = transaction
        self._postings = postings
        self._by_uuid = self._find_uuids()
        # What is not there yet can't be locked: MySQL would keep others from posting beside it.
        new_uuids = {new.uuid for new in postings}.difference(self._by_uuid)
        named = dict.fromkeys(uuid for new in postings for uuid in new.parents)
        self._parents = new_edges.lock(transaction, [uuid for uuid in named if uuid not in new_uuids])
        graphs = dict.fromkeys(new.graph for new in postings if new.graph is not None)
        self._closed_graphs = {graph for graph in graphs if not marks.open_graph(transaction, graph)}
        self._by_key = self._find_keys()
        self._plan: PostingPlan[JobRow] = PostingPlan(
            self._by_uuid.get, self._by_key.get, self._draft, self._missing_parent
        )
        self._new: list[tuple[JobRow, Transition[PostOutcome]]] = []
        self._step = LaneStep(transaction)
        self._edges = NewEdges(transaction)

    def _find_uuids(self) -> dict[str, JobRow]:
        if len(self._postings) == 1:
            rows = self._transaction.rows(job_statements.FIND, uuid=self._postings[0].uuid)
        else:
            uuids = self._transaction.list_of(new.uuid for new in self._postings)
            rows = self._transaction.rows(job_statements.FIND_MANY, uuids=uuids)
        return {job.uuid: job for job in map(job_of, rows)}

    def _find_keys(self) -> dict[tuple[str, str], JobRow]:
        """Find all keys of a name at once; jobs that are to be replaced are found and locked one by one."""
        keys: dict[str, set[str]] = {}
        for new in self._postings:
            if new.key is not None and new.if_exists is not IfExists.REPLACE:
                keys.setdefault(new.name, set()).add(new.key)
        found = [
            job_of(row)
            for name, wanted in keys.items()
            for row in self._transaction.rows(windows.KEYS, name=name, keys=self._transaction.list_of(wanted))
        ]
        # A live job goes before one that has ended and keeps its key.
        found.sort(key=lambda job: job.state in LIVE)
        return {(job.name, job.key): job for job in found if job.key is not None}

    def _draft(self, new: NewJob) -> JobRow:
        return lifecycle.draft(new, self._transaction.now)

    def _missing_parent(self, new: NewJob, batch: Collection[str]) -> str | None:
        if new.graph in self._closed_graphs:
            return new.graph
        return next((uuid for uuid in new.parents if uuid not in self._parents and uuid not in batch), None)

    def post(self) -> list[Posted]:
        planned = [self._plan_step(new) for new in self._postings]
        answers = [
            Posted(outcome, job, self._plan.missing.get(new.uuid))
            for new, (outcome, job) in zip(self._postings, planned, strict=True)
        ]
        if any(outcome.refuses_batch for outcome, _ in planned):
            raise BatchRefused(answers)
        children = [
            (job, new)
            for new, (outcome, job) in zip(self._postings, planned, strict=True)
            if outcome is PostOutcome.POSTED and (new.parents or new.graph is not None)
        ]
        self._note_parents(planned, [new for _, new in children])
        for new, (outcome, job) in zip(self._postings, planned, strict=True):
            if outcome is PostOutcome.POSTED:
                self._new.append((job, lifecycle.post(job, new, self._transaction.now)))
            elif outcome is PostOutcome.REPLACED:
                self._insert()
                self._replace(job, new)
        self._insert()
        windows.keep(
            self._transaction,
            ((new, job) for new, (outcome, job) in zip(self._postings, planned, strict=True) if outcome in _POSTED),
        )
        if children:
            self._connect(children)
        self._step.end()
        if self._step.posts:
            post_all(self._transaction, self._step.posts)
        return answers

    def _note_parents(self, planned: Sequence[tuple[PostOutcome, JobRow]], children: Sequence[NewJob]) -> None:
        """Know the jobs of this batch that are parents, before they are written."""
        wanted = {uuid for new in children for uuid in new.parents}
        for new, (outcome, job) in zip(self._postings, planned, strict=True):
            if new.uuid in wanted and outcome in _POSTED:
                self._parents[new.uuid] = job
                if not is_parent(job):
                    job.ties = replace_fields(job.ties or Ties(), has_children=True)

    def _replace(self, job: JobRow, new: NewJob) -> None:
        self._step.note_waiting(job)
        # What it had to do with others may be nothing any more.
        statement = job_statements.REPLACE if job.ties is None else lanes.REPLACE
        change = lifecycle.replace(job, new, self._transaction.now)
        write_changes(self._transaction, statement, [(job, change)], self._step)
        self._transaction.do(journal_statements.TRIM_HISTORY, id=job.sequence)

    def _plan_step(self, new: NewJob) -> tuple[PostOutcome, JobRow]:
        if new.key is not None and new.uuid not in self._by_uuid:
            self._look_up_key(new, (new.name, new.key))
        return self._plan.step(new)

    def _look_up_key(self, new: NewJob, key: tuple[str, str]) -> None:
        if new.if_exists is IfExists.REPLACE:
            # The job is locked before it is known whether it was replaced already: the first try may still be at it.
            wanted = {"name": new.name, "key": new.key}
            locked = self._transaction.rows(job_statements.FIND_KEY_TO_REPLACE, **wanted)
            for row in locked or self._transaction.rows(windows.HOLDER, **wanted):
                self._by_key[key] = job_of(row)
            for row in self._transaction.rows(job_statements.REPLACED_BY, uuid=new.uuid):
                self._by_uuid[new.uuid] = job_of(row)
        holder = self._by_key.get(key)
        if holder is not None and holder.uuid == new.uuid:
            # The first try was committed between the two reads.
            self._by_uuid[new.uuid] = holder

    def _insert(self) -> None:
        """Insert the new jobs in their order, and learn their sequences."""
        if not self._new:
            return
        jobs = {job.uuid: job for job, _ in self._new}
        self._step.post(jobs.values())
        rows = [columns_of(job) for job, _ in self._new]
        for (job, change), row in zip(self._new, rows, strict=True):
            self._step.add(job, change, row)
        self._transaction.run_many(job_statements.POST, rows)
        uuids = self._transaction.list_of(jobs)
        for uuid, sequence in self._transaction.rows(job_statements.SEQUENCES, uuids=uuids):
            jobs[uuid].sequence = sequence
        lanes.enter(self._transaction, jobs.values())
        lines: list[dict[str, Any]] = [
            journal_line(job.sequence, job.uuid, job.name, note) for job, change in self._new for note in change.told
        ]
        self._transaction.run_many(journal_statements.WRITE_HISTORY, lines)
        self._transaction.notifies = True
        self._new.clear()

    def _connect(self, children: Sequence[tuple[JobRow, NewJob]]) -> None:
        """Write the edges of new jobs; those whose parents have all ended, or failed, become what follows from that."""
        changes: list[tuple[JobRow, Transition[None]]] = []
        for job, new in children:
            parents = {parent.uuid: parent for parent in (self._parents[uuid] for uuid in new.parents)}
            graph = None if new.graph is None else parent_of_graph(new.graph)
            ended = self._edges.add(job, list(parents.values()), graph)
            change = settle(job, ended, self._transaction.now)
            if change is not None:
                changes.append((job, change))
        self._edges.write()
        write_changes(self._transaction, job_statements.SAVE, changes, self._step)


class _BatchBesideOthers(_Batch):
    """Finds keys by locking them: otherwise MySQL shows a transaction all rows as they were when it began."""

    def _find_keys(self) -> dict[tuple[str, str], JobRow]:
        by_key = super()._find_keys()
        for name, key in sorted({(new.name, new.key) for new in self._postings if new.key is not None}):
            for row in self._transaction.rows(job_statements.FIND_KEY_NOW, name=name, key=key):
                by_key[name, key] = job_of(row)
        return by_key
