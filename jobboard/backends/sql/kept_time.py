"""The time of claims whose rows other transactions keep locked, so that an extension can't write it there.

An extension writes a line into the journal instead, which says until when the claim holds. A transaction that
finds such a claim over by its row looks there first. The next extension that can write the row drops these lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from jobboard.backends import lifecycle
from jobboard.backends.rows import JobRow
from jobboard.backends.sql import journal_statements
from jobboard.backends.sql.transaction import Transaction
from jobboard.states import JobState

J = TypeVar("J", bound=JobRow)

_BEFORE, _AFTER = "until ", ", since another transaction has locked its row"


def reason_of(until: float | None) -> str:
    """Return the reason of a line that says until when a claim holds; None: without end."""
    return f"{_BEFORE}{'inf' if until is None else repr(until)}{_AFTER}"


def prolong(transaction: Transaction, jobs: Iterable[J]) -> list[J]:
    """Give the claims that are over by their rows the time that they were extended by; return those that hold on.

    This reads nothing if none is over.
    """
    over = {
        job.sequence: job for job in jobs if job.state is JobState.CLAIMED and lifecycle.is_due(job, transaction.now)
    }
    if not over:
        return []
    for number, token, reason in transaction.rows(journal_statements.EXTENDED_UNTIL, ids=transaction.list_of(over)):
        job, until = over[number], _until(reason)
        if token == job.token and (job.expires_at or 0.0) < until:
            job.expires_at = lifecycle.end_of_claim(until, 0.0)
    return [job for job in over.values() if not lifecycle.is_due(job, transaction.now)]


def _until(reason: str) -> float:
    """Return 0 for what is no such reason."""
    if not reason.startswith(_BEFORE):
        return 0.0
    try:
        return float(reason.removeprefix(_BEFORE).partition(",")[0])
    except ValueError:
        return 0.0
