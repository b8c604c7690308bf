"""What producers and consumers do most, where all of a batch is as usual.

Nobody else writes during a transaction, so a statement needs no look before it: it says how many rows it has changed,
and if that is not all of the batch, the transaction is undone and the batch goes the long way. The differential test
holds these statements to ``jobboard.backends.lifecycle``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from jobboard.backends import lifecycle
from jobboard.backends.rows import ClaimAnswer, Consumption, IfExists, JobRow, NewJob, Posted, PostOutcome, Verdict
from jobboard.backends.sql.claimed_jobs import ClaimedJobs, fit_one_statement
from jobboard.backends.sql.claiming import Claiming
from jobboard.backends.sql.posting import Posting
from jobboard.backends.sql.rows import stored_integer
from jobboard.backends.sql.schema import CLAIMED, CODES, COMPLETE
from jobboard.backends.sql.sqlite.database import SqliteDatabase
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import LongPath, Transaction
from jobboard.backends.sql.transitions import expire_and_promote
from jobboard.states import JobState

POST = """
INSERT INTO jobboard_jobs (board, uuid, name, key, rank, body, max_attempts, state, due_at, run_at, created_on,
    last_modified, attempts, token, cancel_asked)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0)
ON CONFLICT DO NOTHING
"""
LAST_POSTED = Statement(text("SELECT last_insert_rowid()"))
POST_LINES = Statement(
    text("""
INSERT INTO jobboard_journal (board, job, kind, at)
SELECT board, id, 'POSTED', created_on FROM jobboard_jobs WHERE id BETWEEN :first AND :last
""")
)
# A list is read in its order, which is that of the batch.
CLAIM_LINES = Statement(
    text("""
INSERT INTO jobboard_journal (board, job, kind, who, token, at)
SELECT board, job.id, 'CLAIMED', owner, token, last_modified
FROM json_each(:ids) AS listed CROSS JOIN jobboard_jobs AS job ON job.id = listed.value
""")
)
CONSUME = f"""
UPDATE jobboard_jobs
SET state = {COMPLETE}, claim_id = NULL, due_at = NULL, result = ?, retain_until = ?, last_modified = ?
WHERE board = ? AND uuid = ? AND owner = ? AND token = ? AND state + 0 = {CLAIMED} AND (due_at IS NULL OR due_at > ?)
"""  # nosec B608 # made of this module's constants only; values are bound parameters
CONSUME_LINES = Statement(
    text("""
INSERT INTO jobboard_journal (board, job, kind, who, token, at)
SELECT board, job.id, 'CONSUMED', owner, token, last_modified
FROM json_each(:uuids) AS listed CROSS JOIN jobboard_jobs AS job ON board = :board AND uuid = listed.value
""")
)


class SqlitePosting(Posting):
    """Posts without looking for uuids and keys before.

    Replacements go the long way, since they repeat by an alias; so does a lone posting with a key, which often meets a
    live job.
    """

    _transactions: SqliteDatabase

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        if not rows or (len(rows) == 1 and rows[0].key) or any(new.if_exists is IfExists.REPLACE for new in rows):
            return super().post(rows)
        try:
            return self._post(rows)
        except LongPath:
            return super().post(rows)

    def _post(self, rows: Sequence[NewJob]) -> list[Posted]:
        with self._transactions.write() as transaction:
            expire_and_promote(transaction)
            now = transaction.now
            jobs = [JobRow(new.uuid, new.name, new.priority, 0, now, new.body, new.key) for new in rows]
            for job, new in zip(jobs, rows, strict=True):
                lifecycle.post(job, new, now)
            if transaction.run_each(POST, [_values_of(job, transaction.board) for job in jobs]) != len(jobs):
                raise LongPath
            # Without other writers their numbers follow one another.
            ((last,),) = transaction.rows(LAST_POSTED)
            first = last - len(jobs) + 1
            for sequence, job in enumerate(jobs, first):
                job.sequence = sequence
            transaction.run(POST_LINES, first=first, last=last)
            transaction.notifies = True
            return [Posted(PostOutcome.POSTED, job) for job in jobs]


def _values_of(job: JobRow, board: int) -> tuple[Any, ...]:
    """Return a new job in the order of ``POST``."""
    due_at = job.run_at if job.state is JobState.DELAYED else None
    return (
        board, job.uuid, job.name, job.key, -job.priority, job.body, stored_integer(job.max_attempts),
        CODES[job.state], due_at, job.run_at, job.created_on, job.last_modified,
    )  # fmt: skip


class SqliteClaiming(Claiming):
    """Writes the history of all claims of a batch by one statement."""

    def _write_history(self, transaction: Transaction, jobs: list[JobRow]) -> None:
        if jobs:
            transaction.run(CLAIM_LINES, ids=transaction.list_of(job.sequence for job in jobs))


class SqliteClaimedJobs(ClaimedJobs):
    """Consumes without looking at the claims before."""

    _transactions: SqliteDatabase

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        if not ends or not fit_one_statement(ends):
            return super().consume(ends)
        try:
            self._consume(ends)
        except LongPath:
            return super().consume(ends)
        return [Verdict.DONE] * len(ends)

    def _consume(self, ends: Sequence[Consumption]) -> None:
        with self._transactions.write() as transaction:
            expire_and_promote(transaction)
            now, board = transaction.now, transaction.board
            values = (
                (end.result, now + end.retention, now, board, end.fence.uuid, end.fence.who, end.fence.token, now)
                for end in ends
            )
            if transaction.run_each(CONSUME, values) != len(ends):
                raise LongPath
            transaction.run(CONSUME_LINES, uuids=transaction.list_of(end.fence.uuid for end in ends))
