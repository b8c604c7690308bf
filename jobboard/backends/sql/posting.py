"""Post and cancel in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobboard.backends import lifecycle
from jobboard.backends.posting_plan import PostingPlan
from jobboard.backends.rows import CancelOutcome, IfExists, JobRow, NewJob, Posted, PostOutcome
from jobboard.backends.sql import job_statements, journal_statements, lanes, windows
from jobboard.backends.sql.database import Transactions
from jobboard.backends.sql.journal_lines import journal_line
from jobboard.backends.sql.lane_looks import LaneStep
from jobboard.backends.sql.rows import columns_of, job_of
from jobboard.backends.sql.transaction import Transaction, Undone
from jobboard.backends.sql.transitions import LockedJobs, carry_out, expire_and_promote, save
from jobboard.backends.transition import Transition


class Posting:
    """Post and cancel."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        try:
            with self._transactions.write() as transaction:
                expire_and_promote(transaction)
                return post_all(transaction, rows)
        except KeyTakenError as taken:
            return taken.answers

    def cancel(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[CancelOutcome]:
        with self._transactions.write() as transaction:
            expire_and_promote(transaction)
            jobs = LockedJobs.lock(transaction, uuids)
            found = (jobs.get(uuid) for uuid in uuids)
            return save(transaction, ((job, lifecycle.cancel(job, transaction.now, by, reason)) for job in found))


#: The outcomes after which the job has the posting's content.
_POSTED = {PostOutcome.POSTED, PostOutcome.REPLACED}


class KeyTakenError(Undone):
    """A key of a batch is taken, or its job has another lane, so that nothing of the batch was posted."""

    def __init__(self, answers: list[Posted]) -> None:
        self.answers = answers


def post_all(transaction: Transaction, rows: Sequence[NewJob]) -> list[Posted]:
    """Post a batch as part of a transaction.

    :raises KeyTakenError: nothing was posted.
    """
    return _Batch(transaction, rows).post()


class _Batch:
    """Postings that go onto the board together; one statement inserts all new jobs."""

    def __init__(self, transaction: Transaction, postings: Sequence[NewJob]) -> None:
        self._transaction = transaction
        self._postings = postings
        self._by_uuid = self._find_uuids()
        self._by_key = self._find_keys()
        self._plan: PostingPlan[JobRow] = PostingPlan(self._by_uuid.get, self._by_key.get, self._draft)
        self._new: list[tuple[JobRow, Transition[PostOutcome]]] = []
        self._lane_step = LaneStep(transaction)

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
            for row in self._transaction.rows_of_each(
                [job_statements.FIND_KEYS, windows.HOLDERS],
                [{"name": name, "keys": self._transaction.list_of(wanted)}],
            )
        ]
        # A live job counts, and one that ended between the two looks is seen by the second one.
        return {(job.name, job.key): job for job in reversed(found) if job.key is not None}

    def _draft(self, new: NewJob) -> JobRow:
        return lifecycle.draft(new, self._transaction.now)

    def post(self) -> list[Posted]:
        planned = [self._step(new) for new in self._postings]
        answers = [Posted(outcome, job) for outcome, job in planned]
        if any(outcome.refuses_batch for outcome, _ in planned):
            raise KeyTakenError(answers)
        for new, (outcome, job) in zip(self._postings, planned, strict=True):
            if outcome is PostOutcome.POSTED:
                self._new.append((job, lifecycle.post(job, new, self._transaction.now)))
            elif outcome is PostOutcome.REPLACED:
                self._insert()
                self._lane_step.note_waiting(job)
                change = lifecycle.replace(job, new, self._transaction.now)
                carry_out(self._transaction, job_statements.REPLACE, [(job, change)], self._lane_step)
                self._transaction.do(journal_statements.TRIM_HISTORY, id=job.sequence)
        self._insert()
        windows.keep(
            self._transaction,
            ((new, job) for new, (outcome, job) in zip(self._postings, planned, strict=True) if outcome in _POSTED),
        )
        self._lane_step.end()
        return answers

    def _step(self, new: NewJob) -> tuple[PostOutcome, JobRow]:
        if new.key is not None and new.uuid not in self._by_uuid:
            self._look_up_key(new, (new.name, new.key))
        return self._plan.step(new)

    def _look_up_key(self, new: NewJob, key: tuple[str, str]) -> None:
        if new.if_exists is IfExists.REPLACE:
            # The job is locked before it is known whether it was replaced already: the first try may still be at it.
            locked = map(job_of, self._transaction.rows(job_statements.FIND_KEY_TO_REPLACE, name=new.name, key=new.key))
            for job in [*locked] or windows.holders(self._transaction, *key):
                self._by_key[key] = job
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
        self._lane_step.post(jobs.values())
        rows = [columns_of(job) for job, _ in self._new]
        for (job, change), row in zip(self._new, rows, strict=True):
            self._lane_step.add(job, change, row)
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
