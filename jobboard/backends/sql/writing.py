"""Writes jobs that the rules of a job's life have changed, each with its lines in the journal.

All that is told is a line of its job: whoever reads a history leaves out what belongs to none, EXTENDED and
CHECKPOINTED, by the kind (``journal_statements.UNRECORDED``). ``lane_looks`` writes jobs that move within lanes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from jobboard.backends.rows import JobRow
from jobboard.backends.sql import job_statements, journal_statements, lanes, marks
from jobboard.backends.sql.floors import are_below_floors
from jobboard.backends.sql.journal_lines import journal_line
from jobboard.backends.sql.lane_looks import LaneStep
from jobboard.backends.sql.name_limits import are_any_limited
from jobboard.backends.sql.rows import columns_of
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.stored_jobs import StoredJob
from jobboard.backends.sql.tokens import was_claimed_often
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.transition import Transition
from jobboard.events import EventKind
from jobboard.states import JobState

A = TypeVar("A")

#: What an owner does while it has the claim, or at its end: no other process waits for it, and histories stay short.
_BY_OWNER = {EventKind.CLAIMED, EventKind.CONSUMED, EventKind.EXTENDED, EventKind.CHECKPOINTED}

#: The same of a job with ties, which it changes too.
_OF_TIED = {job_statements.SAVE: lanes.SAVE, job_statements.REPLACE: lanes.REPLACE}


def write_changes(
    transaction: Transaction,
    statement: Statement,
    changes: Iterable[tuple[JobRow | None, Transition[A]]],
    step: LaneStep,
) -> list[A]:
    """Write changed jobs by a statement; return the answers.

    :param step: what this is a part of: it learns of the lanes to look at, and of what is to be posted.
    """
    answers: list[A] = []
    changed: list[tuple[JobRow, Transition[A]]] = []
    for job, change in changes:
        answers.append(change.answer)
        if job is not None and change.told:
            changed.append((job, change))
            step.posts += change.posts
            if isinstance(job, StoredJob):
                job.told += change.told
    if changed:
        _write(transaction, statement, changed, step)
        marks.write(transaction, [change.resolve for _, change in changed if change.resolve is not None])
    return answers


def _write(
    transaction: Transaction, statement: Statement, changed: list[tuple[JobRow, Transition[A]]], step: LaneStep
) -> None:
    rows: list[dict[str, Any]] = []
    tied: list[dict[str, Any]] = []
    for job, change in changed:
        row = columns_of(job)
        row["retain_until"] = transaction.now + change.retention if job.state is JobState.COMPLETE else None
        (rows if job.ties is None else tied).append(row)
        step.add(job, change, row)
    transaction.is_below_floors |= are_below_floors([*rows, *tied], transaction.now)
    kinds = {change.told[0].kind for _, change in changed}
    lines = [journal_line(job.sequence, job.uuid, job.name, note) for job, change in changed for note in change.told]
    with transaction.together():
        transaction.run_many(statement, rows)
        transaction.run_many(_OF_TIED.get(statement, statement), tied)
        lanes.move(transaction, changed)
        transaction.run_many(journal_statements.WRITE_HISTORY, lines)
    transaction.notifies |= bool(kinds - _BY_OWNER or tied) or _frees_names(transaction, kinds, changed)
    moved = [job for job, change in changed if change.told[0].kind not in _BY_OWNER]
    long = [{"id": job.sequence} for job in moved if was_claimed_often(job.token)]
    transaction.run_many(journal_statements.TRIM_HISTORY, long)


def _frees_names(transaction: Transaction, kinds: set[EventKind], changed: list[tuple[JobRow, Transition[A]]]) -> bool:
    """Whether somebody may wait until a name has fewer claims."""
    return EventKind.CONSUMED in kinds and are_any_limited(transaction, {job.name for job, _ in changed})
