"""Claim in SQL."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from typing import Any

from jobboard.backends import lifecycle
from jobboard.backends.rows import ClaimRequest, JobRow
from jobboard.backends.sql import admin_statements, job_statements, journal_statements
from jobboard.backends.sql.database import Transactions
from jobboard.backends.sql.rows import Row, job_of, position_of
from jobboard.backends.sql.tokens import least_token, next_token
from jobboard.backends.sql.transaction import BoardStatus, Transaction
from jobboard.backends.sql.transitions import (
    carry_out,
    expire_and_promote,
    expire_and_promote_due,
    journal_line,
)
from jobboard.backends.transition import Note
from jobboard.events import EventKind

#: With a name paused and no filter of names, a claim reads the next ready names this many times at most.
MAX_READS = 10_000
#: Before every job.
ANY_JOB = (-(2**63), 0)
#: A name, behind the place and the id before which it has no job.
Head = tuple[int, int, str]


class Claiming:
    """Claim one job, or the next ones."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        with self._transactions.write() as transaction:
            expire_and_promote(transaction)
            row = transaction.row(job_statements.FIND_TO_CLAIM, uuid=uuid)
            if row is None:
                return None
            job = job_of(row)
            token = next_token(job.token, least_token(transaction.now))
            change = lifecycle.claim(job, claim, transaction.now, token, paused_names(transaction))
            carry_out(transaction, job_statements.CLAIM, [(job, change)])
            return job

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        with self._transactions.write() as transaction:
            status = transaction.status or status_of(transaction)
            if status.is_any_due:
                expire_and_promote_due(transaction)
            claimed: dict[str, Any] = {
                "who": claim.who,
                "claim_id": claim.claim_id,
                "due_at": lifecycle.end_of_claim(claim.expiry, transaction.now),
                "least_token": least_token(transaction.now),
            }
            if names is None and not status.is_any_paused:
                return self._record(transaction, transaction.change(job_statements.CLAIM_NEXT, limit=limit, **claimed))
            paused: frozenset[str | None] = paused_names(transaction) if status.is_any_paused else frozenset()
            best = _best(transaction, names, paused, limit)
            if not best:
                return []
            claimed["ids"] = transaction.list_of(number for _, number, _ in best)
            claimed["uuids"] = transaction.list_of(uuid for _, _, uuid in best)
            return self._record(transaction, transaction.change(job_statements.CLAIM_HEADS, **claimed))

    def claimed_under(self, claim_id: str) -> list[JobRow]:
        with self._transactions.write() as transaction:
            return claims_under(transaction, claim_id)

    def _record(self, transaction: Transaction, rows: list[Row]) -> list[JobRow]:
        """Write claims into the journal; rows that an UPDATE returns have no order of their own."""
        rows.sort(key=position_of)
        jobs = [job_of(row) for row in rows]
        self._write_history(transaction, jobs)
        return jobs

    def _write_history(self, transaction: Transaction, jobs: list[JobRow]) -> None:
        notes = [Note(EventKind.CLAIMED, job.owner, transaction.now, job.token) for job in jobs]
        lines = [journal_line(job.sequence, job.uuid, job.name, note) for job, note in zip(jobs, notes, strict=True)]
        transaction.run_many(journal_statements.WRITE_HISTORY, lines)


def claimed_by(claim: ClaimRequest) -> dict[str, Any]:
    """Return the parameters of a statement that claims, and that reads the time itself; NULL for no expiry."""
    expiry = None if math.isinf(claim.expiry) else claim.expiry
    return {"who": claim.who, "claim_id": claim.claim_id, "expiry": expiry}


def claims_under(transaction: Transaction, claim_id: str) -> list[JobRow]:
    """Return the jobs that are now claimed under this claim id, best first."""
    expire_and_promote(transaction)
    return [job_of(row) for row in transaction.rows(job_statements.CLAIMED_UNDER, claim_id=claim_id)]


def status_of(transaction: Transaction) -> BoardStatus:
    row = transaction.row(job_statements.DUE_OR_PAUSED)
    assert row is not None
    return BoardStatus(bool(row[0]), bool(row[1]))


def paused_names(transaction: Transaction) -> frozenset[str | None]:
    if transaction.status is not None and not transaction.status.is_any_paused:
        return frozenset()
    return frozenset(row[0] or None for row in transaction.rows(admin_statements.PAUSED))


def claimable_names(
    transaction: Transaction, names: frozenset[str] | None, paused: frozenset[str | None]
) -> Iterator[Head]:
    """Yield the names that may be claimed from, without looking at jobs one by one."""
    if None in paused:
        return
    for head in _ready_names(transaction) if names is None else ((*ANY_JOB, name) for name in names):
        if head[-1] not in paused:
            yield head


def _ready_names(transaction: Transaction) -> Iterator[Head]:
    name = ""
    for _ in range(MAX_READS):
        rows = transaction.rows(job_statements.FIRST_OF_NEXT_NAMES, name=name)
        if not rows:
            return
        for head in rows:
            if head[-1] != name:
                name = head[-1]
                yield head


def _best(
    transaction: Transaction, names: frozenset[str] | None, paused: frozenset[str | None], limit: int
) -> list[Row]:
    """Lock the best jobs of these names that are not paused; return the place, the id and the uuid of each."""
    if names is None and None not in paused:
        first = [head for head in transaction.rows(job_statements.FIRST_READY) if head[-1] not in paused]
        heads = {head[-1]: head for head in reversed(first)}
        best = _lock(transaction, heads.values(), limit) if len(first) >= limit else []
        # Rows that others have locked may have led it past jobs of names that it has not seen.
        if len(best) == limit and best[-1][:2] <= first[-1][:2]:
            return best
    return _lock(transaction, claimable_names(transaction, names, paused), limit)


def _lock(transaction: Transaction, heads: Iterable[Head], limit: int) -> list[Row]:
    """Lock the best jobs of names; what others have locked is passed over."""
    best: list[Row] = []
    for place, number, name in sorted(heads):
        if len(best) == limit and (place, number) > best[-1][:2]:
            break
        rows = transaction.rows(job_statements.HEADS_OF_NAME, name=name, limit=limit)
        best = heapq.nsmallest(limit, [*best, *rows])
    return best
