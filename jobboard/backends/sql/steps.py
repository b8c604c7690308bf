"""The steps from state to state inside a transaction, each with its line in the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobboard.backends.attempts import expired, is_used_up, used_up
from jobboard.backends.rows import JobRow, ScheduleEvent, Verdict
from jobboard.backends.sql import statements
from jobboard.backends.sql.auditing import MEND
from jobboard.backends.sql.rows import LARGEST, entry_of
from jobboard.backends.sql.schema import CODES
from jobboard.backends.sql.tokens import number_of_claims
from jobboard.backends.sql.transaction import Transaction
from jobboard.events import EventKind
from jobboard.states import JobState

Line = dict[str, Any]

#: A job that was claimed so seldom has no history that needs trimming.
_FEW_CLAIMS = 5

#: One transaction settles so many times :data:`statements.SETTLED_AT_ONCE` jobs at most.
_MOST_ROUNDS = 10


def line(
    kind: EventKind, job: int, who: str | None = None, token: int | None = None, reason: str | None = None
) -> Line:
    return {"kind": kind.value, "job": job, "who": who, "token": token, "reason": reason}


def write_down(
    transaction: Transaction, kind: EventKind, row: JobRow, who: str | None = None, reason: str | None = None
) -> None:
    """Write a line about an entry as it was read: with the token of its claim, if it is claimed."""
    transaction.stirs = True
    token = row.token if row.state is JobState.CLAIMED else None
    transaction.do(statements.WRITE, **line(kind, row.sequence, who, token, reason))


def write_loose(transaction: Transaction, kind: EventKind, uuid: str | None, name: str | None) -> None:
    """Write a line that belongs to no job (any more)."""
    transaction.stirs = True
    transaction.do(statements.WRITE_LOOSE, kind=kind.value, uuid=uuid, name=name, who=None, token=None, reason=None)


def write_loose_lines(transaction: Transaction, lines: Sequence[ScheduleEvent]) -> None:
    """Write lines that belong to no job, all at once."""
    if lines:
        transaction.stirs = True
        transaction.run_many(
            statements.WRITE_LOOSE,
            [
                {"kind": told.kind.value, "uuid": told.uuid, "name": told.name, "who": told.who, "token": None,  # nosec B105 # the fencing token
                 "reason": told.reason}
                for told in lines
            ],
        )  # fmt: skip


def was_done(transaction: Transaction, uuid: str, token: int, *kinds: EventKind, who: str | None = None) -> Verdict:
    """Look into the journal for what was done under this token before, by this owner if one is given."""
    if token > LARGEST:
        return Verdict.LOST
    names = transaction.list_of(kind.value for kind in kinds)
    owners = [row[0] for row in transaction.rows(statements.WAS_DONE, uuid=uuid, token=token, kinds=names)]
    return Verdict.REPEATED if who in owners or (who is None and owners) else Verdict.LOST


def find(transaction: Transaction, uuid: str) -> JobRow | None:
    """Return a job that is to be changed; where rows are locked, nobody else changes it meanwhile."""
    row = transaction.row(statements.FIND_TO_CHANGE, uuid=uuid)
    return None if row is None else entry_of(row)


# -- settling ----------------------------------------------------------------------------------------------------------


def settle(transaction: Transaction) -> None:
    """Take back what expired, and let go what has become due: one look at an index when there is nothing."""
    if transaction.settles and is_any_due(transaction):
        settle_due(transaction)


def is_any_due(transaction: Transaction) -> bool:
    if transaction.look is not None:
        return transaction.look.is_any_due
    return transaction.row(statements.IS_ANY_DUE) is not None


def settle_due(transaction: Transaction) -> None:
    """Settle what is due, up to a bound; the transactions after this one go on with the rest."""
    for _ in range(_MOST_ROUNDS):
        if max(_let_go(transaction), _take_back_overdue(transaction)) < statements.SETTLED_AT_ONCE:
            return


def _let_go(transaction: Transaction) -> int:
    let_go = transaction.change(statements.LET_GO)
    transaction.stirs = transaction.stirs or bool(let_go)
    transaction.run_many(statements.WRITE, [line(EventKind.DUE, job) for (job,) in let_go])
    return len(let_go)


def _take_back_overdue(transaction: Transaction) -> int:
    rows = transaction.rows(statements.OVERDUE)
    for row in rows:
        _take_back_expired(transaction, entry_of(row))
    return len(rows)


def _take_back_expired(transaction: Transaction, row: JobRow) -> None:
    if row.state is JobState.CLAIMED:
        take_back(transaction, row, EventKind.EXPIRED, expired(row.owner))
    else:
        # A row that contradicts itself must not hold up the others.
        transaction.do(MEND, id=row.sequence)


def take_back(transaction: Transaction, row: JobRow, kind: EventKind, reason: str) -> None:
    """End a claim without its owner: onto the board, into the trash, or off the board."""
    write_down(transaction, kind, row, row.owner, reason)
    trim_history(transaction, row)
    row.reason = reason
    if row.cancel_asked:
        take_off(transaction, row)
    elif kind is EventKind.EXPIRED and is_used_up(row):
        why = used_up(row, reason)
        put_aside(transaction, row, None, why, why)
    else:
        put_back(transaction, row, None)


# -- moving ------------------------------------------------------------------------------------------------------------


def put_back(transaction: Transaction, row: JobRow, due: float | None) -> None:
    """Let a job be claimable from ``due`` on; at once if that is None or over."""
    is_delayed = due is not None and due > transaction.now
    transaction.do(
        statements.PUT_BACK,
        id=row.sequence,
        state=CODES[JobState.DELAYED if is_delayed else JobState.UNCLAIMED],
        due_at=due if is_delayed else None,
        run_at=row.run_at if due is None else due,
        attempts=row.attempts,
        reason=row.reason,
        last_error=row.last_error,
    )


def put_aside(transaction: Transaction, row: JobRow, who: str | None, reason: str | None, error: str | None) -> None:
    """Move a job to the trash; ``error`` is its last one from now on."""
    transaction.do(statements.PUT_ASIDE, id=row.sequence, reason=reason, last_error=error)
    write_down(transaction, EventKind.TRASHED, row, who, reason)


def take_off(transaction: Transaction, row: JobRow, who: str | None = None, reason: str | None = None) -> None:
    """Take a cancelled job off the board; it is remembered for a while, so that a repeat finds it."""
    transaction.do(statements.TAKE_OFF, id=row.sequence)
    write_down(transaction, EventKind.CANCELLED, row, who, reason)


def trim_history(transaction: Transaction, row: JobRow) -> None:
    if number_of_claims(row.token) > _FEW_CLAIMS:
        transaction.do(statements.TRIM_HISTORY, id=row.sequence)
