"""What the owner of a claim does to its job in SQL: extend, checkpoint, consume, abandon, trash."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from jobboard.backends import lifecycle
from jobboard.backends.errors import after_a_change
from jobboard.backends.rows import Abandonment, ClaimAnswer, Consumption, Extension, Fence, JobRow, Trashing, Verdict
from jobboard.backends.sql import job_statements, journal_statements, windows
from jobboard.backends.sql.database import Transactions
from jobboard.backends.sql.ends_with_posts import End, end_claim, has_more
from jobboard.backends.sql.expiry import expire_and_promote
from jobboard.backends.sql.journal_lines import journal_line
from jobboard.backends.sql.kept_time import reason_of
from jobboard.backends.sql.resolving import ending
from jobboard.backends.sql.rows import MAX_INTEGER
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.steps import is_sent
from jobboard.backends.sql.stored_jobs import LockedJobs, StoredJob
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.transitions import carry_out, save
from jobboard.backends.transition import Note, Transition
from jobboard.events import EventKind

#: How often an extension tries again to lock a row that others have locked, and after how many seconds.
MAX_RETRIES, RETRY_DELAY = 50, 0.02

#: A job of a batch, and what its request makes of it.
_Change = tuple[StoredJob | None, Transition[ClaimAnswer]]


class ClaimedJobs:
    """Extend, checkpoint and end claims."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def extend(self, renewals: Sequence[Extension]) -> list[ClaimAnswer]:
        """Extend claims; try again for a moment where others have locked the row, since they may be ending the claim.

        A row that stays locked for longer is locked by a transaction of the user's, or of an operator. The journal then
        says until when its claim holds.
        """
        verdicts: list[ClaimAnswer] = [Verdict.LOST] * len(renewals)
        left: Sequence[int] = range(len(renewals))
        with after_a_change(lambda: len(left) < len(renewals)):
            for tries in range(MAX_RETRIES):
                answers = self._extend([renewals[at] for at in left], is_first=not tries)
                for at, (verdict, _) in zip(left, answers, strict=True):
                    verdicts[at] = verdict
                left = [at for at, (_, is_locked) in zip(left, answers, strict=True) if is_locked]
                if not left:
                    break
                time.sleep(RETRY_DELAY)
        return verdicts

    def _extend(self, renewals: Sequence[Extension], *, is_first: bool) -> list[tuple[ClaimAnswer, bool]]:
        """Return each verdict, and whether the row was not written because others have locked it."""
        with self._transactions.write() as transaction:
            expire_and_promote(transaction)
            free, locked = LockedJobs.lock_free(transaction, [renewal.fence.uuid for renewal in renewals])
            verdicts = _rewrite(
                transaction,
                job_statements.EXTEND,
                [_extended(transaction, free.under(renewal.fence), renewal) for renewal in renewals],
            )
            answers: list[tuple[ClaimAnswer, bool]] = []
            lines: list[dict[str, Any]] = []
            for renewal, verdict in zip(renewals, verdicts, strict=True):
                job = locked.under(renewal.fence)
                if job is None or not lifecycle.holds(job, renewal.fence):
                    answers.append((verdict, False))
                    continue
                answers.append((lifecycle.extend(job, renewal, transaction.now).answer, True))
                note = Note(EventKind.EXTENDED, job.owner, transaction.now, job.token, reason_of(job.expires_at))
                lines.append(journal_line(job.sequence, job.uuid, job.name, note))
            if is_first:
                # Until the last try, its time by the row may be over.
                transaction.run_many(journal_statements.WRITE_HISTORY, lines)
            return answers

    def checkpoint(self, fence: Fence, state: bytes) -> ClaimAnswer:
        with self._transactions.write() as transaction:
            expire_and_promote(transaction)
            job = LockedJobs.lock(transaction, [fence.uuid]).under(fence)
            change = lifecycle.checkpoint(job, fence, state, transaction.now)
            (verdict,) = _rewrite(transaction, job_statements.CHECKPOINT, [(job, change)])
            return verdict

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        with ending(self._transactions) as transaction:
            jobs = _lock(transaction, [end.fence for end in ends])
            if transaction.moves_others:
                return _end_all(transaction, job_statements.CONSUME, jobs, ends, lifecycle.consume)
            rule = partial(_consumed, transaction)
            return _end_all(transaction, job_statements.CONSUME_KNOWN, jobs, ends, rule)

    def abandon(self, ends: Sequence[Abandonment]) -> list[ClaimAnswer]:
        with ending(self._transactions) as transaction:
            jobs = _lock(transaction, [end.fence for end in ends])
            changes = ((jobs.under(end.fence), end) for end in ends)
            return save(transaction, ((job, _abandoned(transaction, job, end, jobs)) for job, end in changes))

    def trash(self, ends: Sequence[Trashing]) -> list[ClaimAnswer]:
        with ending(self._transactions) as transaction:
            expire_and_promote(transaction)
            jobs = LockedJobs.lock(transaction, [end.uuid for end in ends])
            return _end_all(transaction, job_statements.SAVE, jobs, ends, lifecycle.trash)


def _end_all(
    transaction: Transaction,
    statement: Statement,
    jobs: LockedJobs,
    ends: Sequence[End],
    rule: Callable[[JobRow | None, End, float], Transition[ClaimAnswer]],
) -> list[ClaimAnswer]:
    if any(map(has_more, ends)):
        return [end_claim(transaction, statement, jobs, end, rule) for end in ends]
    changes = ((jobs.of_end(end), end) for end in ends)
    return carry_out(transaction, statement, ((job, rule(job, end, transaction.now)) for job, end in changes))


def _consumed(transaction: Transaction, job: JobRow | None, end: Consumption, now: float) -> Transition[ClaimAnswer]:
    """Consume a job, whose record stays at least for as long as its key does."""
    change = lifecycle.consume(job, end, now)
    if job is not None and change.told:
        change.retention = max(change.retention, windows.seconds_left(transaction, job))
    return change


def fit_one_statement(ends: Sequence[Consumption]) -> bool:
    """Whether one statement can end these claims: nothing is posted with them, each job is named only once, and a
    column can hold every token."""
    if any(map(has_more, ends)):
        return False
    fences = [end.fence for end in ends]
    return len({fence.uuid for fence in fences}) == len(fences) and all(fence.token <= MAX_INTEGER for fence in fences)


def _lock(transaction: Transaction, fences: list[Fence]) -> LockedJobs:
    """Lock the jobs of these fences, on a board where nothing else is due."""
    expire_and_promote(transaction)
    return LockedJobs.lock(transaction, [fence.uuid for fence in fences])


def _abandoned(
    transaction: Transaction, job: StoredJob | None, end: Abandonment, jobs: LockedJobs
) -> Transition[ClaimAnswer]:
    # Who sends a signal locks the job first.
    has_signal = end.signal is not None and is_sent(transaction, end.fence.uuid, end.signal)
    return lifecycle.abandon(job, end, transaction.now, limit=jobs.limits.of(job), has_signal=has_signal)


def _extended(transaction: Transaction, job: StoredJob | None, renewal: Extension) -> _Change:
    """Extend a claim; others wait for its end, so they must learn of it if it comes sooner now."""
    before = None if job is None else job.expires_at
    change = lifecycle.extend(job, renewal, transaction.now)
    if job is not None and job.expires_at is not None and (before is None or job.expires_at < before):
        transaction.notifies = True
    return job, change


def _rewrite(transaction: Transaction, statement: Statement, changes: Sequence[_Change]) -> list[ClaimAnswer]:
    """Write jobs that stay claimed; the journal keeps only the last such change of each."""
    rewritten = [{"id": job.sequence} for job, change in changes if job is not None and change.told]
    transaction.run_many(journal_statements.DROP_UNRECORDED, rewritten)
    return carry_out(transaction, statement, changes)
