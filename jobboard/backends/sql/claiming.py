"""Claim in SQL."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from jobboard.backends import lifecycle
from jobboard.backends.errors import after_a_change
from jobboard.backends.rows import ClaimRequest, JobRow
from jobboard.backends.sql import job_statements, journal_statements
from jobboard.backends.sql.database import Transactions
from jobboard.backends.sql.exchanges import Exchanges
from jobboard.backends.sql.expiry import expire_and_promote, expire_and_promote_due, status_of
from jobboard.backends.sql.journal_lines import journal_line
from jobboard.backends.sql.name_limits import (
    barred,
    full_names,
    lock_further_rooms,
    lock_rooms,
    rooms_of,
    within_rooms,
)
from jobboard.backends.sql.rows import Row, job_of, position_of
from jobboard.backends.sql.tokens import least_token, next_token
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.transitions import carry_out
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
        self._exchanges = Exchanges()

    def claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        with self._transactions.write() as transaction:
            expire_and_promote(transaction)
            row = transaction.row(job_statements.FIND_TO_CLAIM, uuid=uuid)
            if row is None:
                return None
            job = job_of(row)
            token = next_token(job.token, least_token(transaction.now))
            change = lifecycle.claim(job, claim, transaction.now, token, _barred_for(transaction, job.name))
            carry_out(transaction, job_statements.CLAIM, [(job, change)])
            return job

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        with self._transactions.write() as transaction:
            status = status_of(transaction)
            if status.is_any_due:
                expire_and_promote_due(transaction)
            claimed = self._claim_ready(transaction, claim, names, limit)
        return self._exchange(claim, names, limit, claimed) if status.is_any_blocked else claimed

    def _claim_ready(
        self, transaction: Transaction, claim: ClaimRequest, names: frozenset[str] | None, limit: int
    ) -> list[JobRow]:
        claimed: dict[str, Any] = {
            "who": claim.who,
            "claim_id": claim.claim_id,
            "due_at": lifecycle.end_of_claim(claim.expiry, transaction.now),
            "least_token": least_token(transaction.now),
        }
        if names is None and not status_of(transaction).is_any_paused:
            return self._record(transaction, transaction.change(job_statements.CLAIM_NEXT, limit=limit, **claimed))
        best = _claimable_heads(transaction, names, limit)
        if not best:
            return []
        claimed["ids"] = transaction.list_of(number for _, number, _, _ in best)
        claimed["uuids"] = transaction.list_of(uuid for _, _, uuid, _ in best)
        return self._record(transaction, transaction.change(job_statements.CLAIM_HEADS, **claimed))

    def _exchange(
        self, claim: ClaimRequest, names: frozenset[str] | None, limit: int, claimed: list[JobRow]
    ) -> list[JobRow]:
        """Return these claimed jobs and, if they are too few, more that exchanges let be claimed."""
        if len(claimed) == limit:
            return claimed
        # A transaction of its own: it locks limits of names, as the one before it did.
        with after_a_change(lambda: bool(claimed)), self._transactions.write() as transaction:
            return claimed + self._exchanges.claim(transaction, claim, names, limit - len(claimed))

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


def _barred_for(transaction: Transaction, name: str) -> frozenset[str | None]:
    """Return what bars a claim of a name, whose limit is locked from now on."""
    known = barred(transaction, [name])
    rooms = lock_rooms(transaction, known.limits) if known.limits else {}
    return known.paused | full_names(rooms)


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


def _claimable_heads(transaction: Transaction, names: frozenset[str] | None, limit: int) -> list[Row]:
    """Lock the best jobs that can be claimed; return the place, the id, the uuid and the name of each."""
    known = barred(transaction, names)
    best = _best(transaction, names, known.paused, limit)
    limited = known.limits.keys() & {name for *_, name in best}
    if not limited:
        return best
    rooms = lock_rooms(transaction, limited)
    kept = within_rooms(best, rooms)
    if len(kept) == len(best):
        return kept
    # Others go before those that are too many. How many claims those have is seen now, and certain once it is locked.
    rooms = rooms_of(transaction, {name: known.limits[name] for name in known.limits.keys() - limited}) | rooms
    best = _best(transaction, names, known.paused | full_names(rooms), limit, rooms)
    further = rooms.keys() & {name for *_, name in best} - limited
    return within_rooms(best, rooms | lock_further_rooms(transaction, further) if further else rooms)


def _best(
    transaction: Transaction,
    names: frozenset[str] | None,
    closed: frozenset[str | None],
    limit: int,
    rooms: Mapping[str, int] = MappingProxyType({}),
) -> list[Row]:
    """Lock the best jobs of these names but for the closed ones; of some names no more than there is room for."""
    if names is None and None not in closed:
        best = transaction.rows(job_statements.HEADS, limit=limit)
        if closed.isdisjoint(name for *_, name in best) and not rooms:
            return best
        first = [head for head in transaction.rows(job_statements.FIRST_READY) if head[-1] not in closed]
        heads = {head[-1]: head for head in reversed(first)}
        best = _lock(transaction, heads.values(), limit, rooms) if len(first) >= limit else []
        # Rows that others have locked may have led it past jobs of names that it has not seen.
        if len(best) == limit and best[-1][:2] <= first[-1][:2]:
            return best
    return _lock(transaction, claimable_names(transaction, names, closed), limit, rooms)


def _lock(transaction: Transaction, heads: Iterable[Head], limit: int, rooms: Mapping[str, int]) -> list[Row]:
    """Lock the best jobs of names; what others have locked is passed over."""
    best: list[Row] = []
    for place, number, name in sorted(heads):
        if len(best) == limit and (place, number) > best[-1][:2]:
            break
        most = min(limit, rooms.get(name, limit))
        rows = transaction.rows(job_statements.HEADS_OF_NAME, name=name, limit=most)
        best = heapq.nsmallest(limit, [*best, *((*row, name) for row in rows)])
    return best
