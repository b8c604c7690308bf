"""The consumers' primitives in SQL."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

from jobboard.backends.attempts import is_used_up, last_error_after, used_up
from jobboard.backends.base import Backend
from jobboard.backends.rows import Abandonment, ClaimRequest, Consumption, Extension, Fence, JobRow, Trashing, Verdict
from jobboard.backends.sql import sidelines, statements
from jobboard.backends.sql.database import Database
from jobboard.backends.sql.fences import Held, held_and_free, lock_held, locked_by_others
from jobboard.backends.sql.rows import CANCEL_ASKED, DUE_AT, ID, OWNER, TOKEN, Row, entry_of, place_of
from jobboard.backends.sql.steps import (
    find,
    line,
    put_aside,
    put_back,
    settle,
    settle_due,
    take_off,
    trim_history,
    was_done,
    write_down,
)
from jobboard.backends.sql.transaction import Look, Transaction
from jobboard.errors import BoardUnavailable, ReplyLost
from jobboard.events import EventKind
from jobboard.states import LIVE, JobState

#: How often to look whether a row that others have locked is free, and after how many seconds again.
_LOOKS, _LOOK_AGAIN = 50, 0.02

#: With a name paused and no filter of names, so many names are chosen from at most.
_MOST_NAMES = 10_000


class Claiming(Backend):
    """Claim, extend, checkpoint, and the ends of a claim."""

    database: Database

    def claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        with self.database.write() as transaction:
            settle(transaction)
            row = transaction.row(statements.FIND_TO_CLAIM, uuid=uuid)
            if row is None:
                return None
            entry = entry_of(row)
            paused = paused_names(transaction)
            if entry.state is not JobState.UNCLAIMED or None in paused or entry.name in paused:
                return entry
            (claimed,) = _own(transaction, claim, [entry.sequence])
            return claimed

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        with self.database.write() as transaction:
            look = transaction.look or _look(transaction)
            if look.is_any_due:
                settle_due(transaction)
            if names is None and not look.is_any_paused:
                rows = transaction.change(statements.CLAIM_NEXT, limit=limit, **_claimed_by(claim, transaction))
                return _written_down(transaction, rows)
            wanted = claimable_names(transaction, names, paused_names(transaction))
            heads = [transaction.rows(statements.HEADS_OF_NAME, name=name, limit=limit) for name in wanted]
            best = heapq.nsmallest(limit, (head for found in heads for head in found))
            return _own(transaction, claim, [number for _, number in best])

    def claimed_under(self, claim_id: str) -> list[JobRow]:
        with self.database.write() as transaction:
            settle(transaction)
            return [entry_of(row) for row in transaction.rows(statements.CLAIMED_UNDER, claim_id=claim_id)]

    def extend(self, renewals: Sequence[Extension]) -> list[Verdict]:
        """Try again for a moment what others have locked: they may be about to take the claim back.

        What stays locked for longer is in a transaction of the user's, and nobody takes it back before that ends.
        """
        verdicts = [Verdict.LOST] * len(renewals)
        left: Sequence[int] = range(len(renewals))
        for _ in range(_LOOKS):
            try:
                answers = self._extend([renewals[at] for at in left])
            except BoardUnavailable as error:
                if len(left) < len(renewals):
                    raise ReplyLost(str(error)) from error
                raise
            for at, (verdict, _) in zip(left, answers, strict=True):
                verdicts[at] = verdict
            left = [at for at, (_, is_locked) in zip(left, answers, strict=True) if is_locked]
            if not left:
                break
            time.sleep(_LOOK_AGAIN)
        return verdicts

    def _extend(self, renewals: Sequence[Extension]) -> list[tuple[Verdict, bool]]:
        """Return for each renewal what to tell, and whether that is so only because others have locked the row."""
        with self.database.write() as transaction:
            settle(transaction)
            held = held_and_free(transaction, [renewal.fence for renewal in renewals])
            busy = locked_by_others(transaction, held, [renewal.fence for renewal in renewals])
            verdicts, changes, lines = [], [], []
            for renewal in renewals:
                row, locked = held.row(renewal.fence), busy.row(renewal.fence)
                verdicts.append((_told(row or locked), locked is not None))
                if row is not None:
                    due_at = _end_of(renewal.expiry, transaction)
                    transaction.stirs = transaction.stirs or _is_sooner(due_at, row[DUE_AT])
                    changes.append({"id": row[ID], "due_at": due_at, "progress": renewal.progress})
                    lines.append(_line_under(EventKind.EXTENDED, row))
            transaction.run_many(statements.EXTEND, changes)
            transaction.run_many(statements.DROP_UNRECORDED, [{"id": change["id"]} for change in changes])
            transaction.run_many(statements.WRITE, lines)
            return verdicts

    def checkpoint(self, fence: Fence, state: bytes) -> Verdict:
        with self.database.write() as transaction:
            settle(transaction)
            row = lock_held(transaction, [fence]).row(fence)
            if row is not None:
                transaction.do(statements.CHECKPOINT, id=row[ID], checkpoint=state)
                transaction.do(statements.DROP_UNRECORDED, id=row[ID])
                transaction.do(statements.WRITE, **_line_under(EventKind.CHECKPOINTED, row))
            return _told(row)

    def consume(self, ends: Sequence[Consumption]) -> list[Verdict]:
        with self.database.write() as transaction:
            settle(transaction)
            held = lock_held(transaction, [end.fence for end in ends])
            rows = [held.take(end.fence) for end in ends]
            changes, lines = [], []
            for end, row in zip(ends, rows, strict=True):
                if row is not None:
                    until = transaction.now + end.retention
                    changes.append({"id": row[ID], "result": end.result, "retain_until": until})
                    lines.append(_line_under(EventKind.CONSUMED, row))
            transaction.run_many(statements.CONSUME, changes)
            transaction.run_many(statements.WRITE, lines)
            return [
                _repeated(transaction, end.fence, EventKind.CONSUMED) if row is None else Verdict.DONE
                for end, row in zip(ends, rows, strict=True)
            ]

    def abandon(self, ends: Sequence[Abandonment]) -> list[Verdict]:
        with self.database.write() as transaction:
            settle(transaction)
            held = lock_held(transaction, [end.fence for end in ends])
            return [_abandon(transaction, held, end) for end in ends]

    def trash(self, ends: Sequence[Trashing]) -> list[Verdict]:
        with self.database.write() as transaction:
            settle(transaction)
            held = lock_held(transaction, [end.fence for end in ends if end.fence is not None])
            return [_trash(transaction, held, end) for end in ends]


# -- what may be claimed -----------------------------------------------------------------------------------------------


def _look(transaction: Transaction) -> Look:
    row = transaction.row(statements.DUE_OR_PAUSED)
    assert row is not None
    return Look(bool(row[0]), bool(row[1]))


def paused_names(transaction: Transaction) -> frozenset[str | None]:
    if transaction.look is not None and not transaction.look.is_any_paused:
        return frozenset()
    return frozenset(row[0] or None for row in transaction.rows(sidelines.PAUSED))


def claimable_names(transaction: Transaction, names: frozenset[str] | None, paused: frozenset[str | None]) -> list[str]:
    """Return the names that may be claimed from, without looking at jobs one by one."""
    if None in paused:
        return []
    wanted: Iterable[str] = _ready_names(transaction) if names is None else names
    return [name for name in wanted if name not in paused]


def _ready_names(transaction: Transaction) -> Iterable[str]:
    name = ""
    for _ in range(_MOST_NAMES):
        row = transaction.row(statements.NEXT_READY_NAME, name=name)
        if row is None:
            return
        (name,) = row
        yield name


# -- claiming ----------------------------------------------------------------------------------------------------------


def _end_of(expiry: float, transaction: Transaction) -> float | None:
    return None if math.isinf(expiry) else transaction.now + expiry


def _claimed_by(claim: ClaimRequest, transaction: Transaction) -> dict[str, Any]:
    return {"who": claim.who, "claim_id": claim.claim_id, "due_at": _end_of(claim.expiry, transaction)}


def _own(transaction: Transaction, claim: ClaimRequest, numbers: list[int]) -> list[JobRow]:
    if not numbers:
        return []
    owned = _claimed_by(claim, transaction)
    return _written_down(
        transaction, transaction.change(statements.CLAIM_IDS, ids=transaction.list_of(numbers), **owned)
    )


def _written_down(transaction: Transaction, rows: list[Row]) -> list[JobRow]:
    """Write claims into the journal; rows that an UPDATE returns have no order of their own."""
    rows.sort(key=place_of)
    transaction.run_many(statements.WRITE, [_line_under(EventKind.CLAIMED, row) for row in rows])
    return [entry_of(row) for row in rows]


# -- under a claim -----------------------------------------------------------------------------------------------------


def _line_under(kind: EventKind, row: Row) -> dict[str, Any]:
    return line(kind, row[ID], row[OWNER], row[TOKEN])


def _is_sooner(end: float | None, before: float | None) -> bool:
    return end is not None and (before is None or end < before)


def _told(row: Row | None) -> Verdict:
    if row is None:
        return Verdict.LOST
    return Verdict.CANCEL_ASKED if row[CANCEL_ASKED] else Verdict.DONE


def _repeated(transaction: Transaction, fence: Fence, *kinds: EventKind) -> Verdict:
    return was_done(transaction, fence.uuid, fence.token, *kinds, who=fence.who)


def _abandon(transaction: Transaction, held: Held, end: Abandonment) -> Verdict:
    fence = end.fence
    row = held.take(fence)
    if row is None:
        return _repeated(transaction, fence, EventKind.ABANDONED, EventKind.CANCELLED)
    entry = entry_of(row)
    entry.reason = end.reason
    entry.last_error = last_error_after(entry, end.reason, end.error, failed=end.counted)
    if not end.counted:
        entry.attempts -= 1
    if entry.cancel_asked:
        take_off(transaction, entry, fence.who, end.reason)
        return Verdict.DONE
    write_down(transaction, EventKind.ABANDONED, entry, fence.who, end.reason)
    trim_history(transaction, entry)
    if end.counted and is_used_up(entry):
        put_aside(transaction, entry, fence.who, used_up(entry, end.reason), entry.last_error)
    else:
        put_back(transaction, entry, transaction.now + end.delay if end.delay > 0 else end.run_at)
    return Verdict.DONE


def _trash(transaction: Transaction, held: Held, end: Trashing) -> Verdict:
    if end.fence is not None:
        row = held.take(end.fence)
        if row is None:
            return _repeated(transaction, end.fence, EventKind.TRASHED)
        _put_aside(transaction, entry_of(row), end)
        return Verdict.DONE
    entry = find(transaction, end.uuid)
    if entry is not None and entry.state in LIVE:
        held.forget(end.uuid)
        _put_aside(transaction, entry, end)
        return Verdict.DONE
    return Verdict.REPEATED if entry is not None and entry.state is JobState.TRASHED else Verdict.LOST


def _put_aside(transaction: Transaction, entry: JobRow, end: Trashing) -> None:
    error = last_error_after(entry, end.reason, end.error, failed=True)
    put_aside(transaction, entry, end.by, end.reason, error)
