"""Working off marks: the edges of parents say how these have ended, and children become what follows from that.

A mark, and the rows of children, that another transaction has locked are passed over, so that nobody who works off
marks waits while he has locked any job. Whoever comes next goes on with them.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jobboard.backends.edge_rows import Outcome
from jobboard.backends.edges import largest_part, may_wait, settle
from jobboard.backends.sql import edge_statements, marks
from jobboard.backends.sql.database import Transactions
from jobboard.backends.sql.new_edges import standing_of
from jobboard.backends.sql.schema import OUTCOME_CODES
from jobboard.backends.sql.stored_jobs import LockedJobs, StoredJob
from jobboard.backends.sql.transaction import Transaction
from jobboard.backends.sql.transitions import save
from jobboard.errors import BoardUnavailable

#: About how many edges one transaction writes; each mark has two of them at least.
MAX_EDGES = 200
#: In how many transactions the end of a parent resolves its children; others go on with the rest.
MAX_PARTS = 4
#: For how many seconds whoever comes next sees at once to children whose rows others have locked, most often for a
#: moment; and after how many seconds then.
LOCK_PATIENCE, LOCKED_DELAY = 1.0, 0.05


class _Mark(NamedTuple):
    parent: str
    outcome: int
    due_at: float
    last_child: str
    name: str
    is_cut: int
    result: bytes | None


def work_off(transaction: Transaction) -> None:
    """Work off marks that are due, up to a bound."""
    _work_off(transaction, [_Mark(*row) for row in transaction.rows(marks.LOCK_DUE)])


def resolve(transactions: Transactions, parents: Sequence[str]) -> list[str]:
    """Work off a part of the marks of these parents, and return those that have more.

    In a transaction of the user's they are left to whoever comes after it, since the children would stay locked.
    """
    with transactions.write() as transaction:
        if not transaction.moves_others:
            return []
        named = transaction.list_of(parents)
        _work_off(transaction, [_Mark(*row) for row in transaction.rows(marks.LOCK_THESE, parents=named)])
        return [parent for (parent,) in transaction.rows(marks.DUE_OF_THESE, parents=named)]


@contextlib.contextmanager
def ending(transactions: Transactions) -> Iterator[Transaction]:
    """One transaction that may end parents; then their first children are resolved, by others of their own."""
    with transactions.write() as transaction:
        yield transaction
    left = transaction.marked if transaction.moves_others else []
    # The ends are committed: whatever fails now, others go on with their marks.
    with contextlib.suppress(BoardUnavailable):
        for _ in range(MAX_PARTS):
            if not left:
                return
            left = resolve(transactions, left[: marks.MAX_MARKS])


def _work_off(transaction: Transaction, found: list[_Mark]) -> None:
    if not found:
        return
    share = max(2, MAX_EDGES // len(found))
    most = {mark.parent: min(share, largest_part(mark.result)) for mark in found}
    asked = [
        {"parent": it.parent, "outcome": it.outcome, "last_child": it.last_child, "limit": most[it.parent]}
        for it in found
    ]
    children: defaultdict[str, list[str]] = defaultdict(list)
    for parent, child in transaction.rows_of_each([edge_statements.NEXT_CHILDREN], asked):
        children[parent].append(child)
    uuids = sorted({child for some in children.values() for child in some})
    free, locked = LockedJobs.lock_free(transaction, uuids) if uuids else (LockedJobs(transaction, []),) * 2
    told = {mark: _to_tell(mark, children[mark.parent], free, locked) for mark in found}
    _write_edges(transaction, told)
    _move_marks_on(transaction, {mark: (children[mark.parent], most[mark.parent]) for mark in found}, locked)
    # The end of a child may write a mark anew that was worked off just now.
    jobs = {uuid: free.get(uuid) for some in told.values() for uuid in some}
    _settle(transaction, [job for job in jobs.values() if job is not None and may_wait(job)])


def _to_tell(mark: _Mark, children: list[str], free: LockedJobs, locked: LockedJobs) -> list[str]:
    """Return the children whose edges are to say how a parent stands; one that is restored holds up no others."""
    here = [child for child in children if locked.get(child) is None]
    if mark.outcome != OUTCOME_CODES[Outcome.OPEN]:
        return here
    return [child for child in here if may_wait(free.get(child))]


def _write_edges(transaction: Transaction, told: dict[_Mark, list[str]]) -> None:
    some = [
        (mark, {"parent": mark.parent, "first": its[0], "last": its[-1], "children": transaction.list_of(its)})
        for mark, its in told.items()
        if its
    ]
    never = OUTCOME_CODES[Outcome.NEVER]
    transaction.run_many(edge_statements.DELETE, [row for mark, row in some if mark.outcome == never])
    rows = [
        {**row, "outcome": mark.outcome, "name": mark.name, "is_cut": mark.is_cut, "result": mark.result}
        for mark, row in some
        if mark.outcome != never
    ]
    transaction.run_many(edge_statements.RESOLVE, rows)


def _move_marks_on(transaction: Transaction, seen: dict[_Mark, tuple[list[str], int]], locked: LockedJobs) -> None:
    """Let each mark go on behind the children that were seen to, or be gone after the last one."""
    over, later = [], []
    for mark, (children, most) in seen.items():
        if any(locked.get(child) is not None for child in children):
            is_young = transaction.now - mark.due_at < LOCK_PATIENCE
            due_at = mark.due_at if is_young else transaction.now + LOCKED_DELAY
            later.append({"parent": mark.parent, "last_child": mark.last_child or marks.BEGUN, "due_at": due_at})
        elif len(children) < most:
            over.append(mark.parent)
        else:
            later.append({"parent": mark.parent, "last_child": children[-1], "due_at": mark.due_at})
    marks.forget(transaction, over)
    transaction.run_many(marks.MOVE_ON, later)


def _settle(transaction: Transaction, jobs: list[StoredJob]) -> None:
    if not jobs:
        return
    standing = standing_of(transaction, jobs)
    changes = [(job, settle(job, standing[job.uuid], transaction.now)) for job in jobs]
    save(transaction, [(job, change) for job, change in changes if change is not None])
