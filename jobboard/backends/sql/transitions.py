"""Jobs that the rules of a job's life have changed, and what follows in the same step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from jobboard.backends.rows import JobRow
from jobboard.backends.sql import job_statements
from jobboard.backends.sql.batch import post_all
from jobboard.backends.sql.lane_looks import LaneStep
from jobboard.backends.sql.statement import Statement
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.writing import write_changes
from jobboard.backends.transition import Transition

A = TypeVar("A")


def carry_out(
    transaction: Transaction,
    statement: Statement,
    changes: Iterable[tuple[JobRow | None, Transition[A]]],
    step: LaneStep | None = None,
) -> list[A]:
    """Write changed jobs by a statement, with their lines in the journal, and do what follows; return the answers.

    :param step: the step that this is a part of, if that ends later (:func:`end_step`).
    :raises BatchRefused: what is to be posted with an end is refused.
    """
    own_step = step or LaneStep(transaction)
    answers = write_changes(transaction, statement, changes, own_step)
    if step is None:
        end_step(transaction, own_step)
    return answers


def end_step(transaction: Transaction, step: LaneStep) -> None:
    """Post what follows the ends of a step, and look at its lanes."""
    if step.posts:
        post_all(transaction, step.posts)
    step.end()


def save(transaction: Transaction, changes: Iterable[tuple[JobRow | None, Transition[A]]]) -> list[A]:
    """Write jobs that have moved to another state."""
    return carry_out(transaction, job_statements.SAVE, changes)
