"""Ends of claims with which other jobs are posted, or a graph is complete: all of it happens, or nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TypeVar

from jobboard.backends.rows import ClaimAnswer, Consumption, JobRow, Refused, Trashing, Verdict
from jobboard.backends.sql import marks
from jobboard.backends.sql.batch import BatchRefused
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.stored_jobs import LockedJobs
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.transitions import carry_out
from jobboard.backends.transition import Transition

End = TypeVar("End", Consumption, Trashing)


def has_more(end: Consumption | Trashing) -> bool:
    """Whether an end may be refused for what is to happen with it."""
    return bool(end.posts) or (isinstance(end, Consumption) and end.seal is not None)


def end_claim(
    transaction: Transaction,
    statement: Statement,
    jobs: LockedJobs,
    end: End,
    rule: Callable[[JobRow | None, End, float], Transition[ClaimAnswer]],
) -> ClaimAnswer:
    """End one claim with what is to happen with it; if that is refused, the claim goes on."""
    job = jobs.of_end(end)
    before = copy.copy(job)
    try:
        with transaction.part():
            (answer,) = carry_out(transaction, statement, [(job, rule(job, end, transaction.now))])
            if answer is Verdict.DONE and isinstance(end, Consumption) and end.seal is not None:
                _seal(transaction, end.seal)
            return answer
    except BatchRefused as refused:
        if before is not None:
            jobs.put_back(before)
        return Refused(tuple(refused.answers[: len(end.posts)]))


def _seal(transaction: Transaction, graph: str) -> None:
    if marks.seal(transaction, graph) is Verdict.LOST:
        raise BatchRefused([])
