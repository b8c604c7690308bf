"""The consumers' primitives in SQL."""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from jobboard.backend import Backend
from jobboard.backends.sql import statements
from jobboard.backends.sql.database import Database, Transaction
from jobboard.backends.sql.rows import entry_of
from jobboard.backends.sql.steps import (
    find,
    is_used_up,
    line,
    line_of,
    put_aside,
    put_back,
    settle,
    take_off,
    used_up,
    write_down,
)
from jobboard.entry import LIVE, Claim, Consumption, Discard, Entry, Hold, JobState, Renewal, Return, Verdict
from jobboard.events import EventKind


class Claiming(Backend):
    """Claim, extend, checkpoint, and the ends of a claim."""

    database: Database

    def claim(self, uuid: str, claim: Claim) -> Entry | None:
        with self.database.write() as transaction:
            settle(transaction)
            row = transaction.row(statements.FIND_VISIBLE, uuid=uuid)
            if row is None:
                return None
            entry = entry_of(row)
            paused = paused_names(transaction)
            if entry.state is not JobState.UNCLAIMED or None in paused or entry.name in paused:
                return entry
            (claimed,) = _claimed(
                transaction, transaction.rows(statements.CLAIM, uuid=uuid, **_owned(claim, transaction))
            )
            return claimed

    def claim_next(self, claim: Claim, names: frozenset[str] | None, limit: int) -> list[Entry]:
        with self.database.write() as transaction:
            look = transaction.row(statements.DUE_OR_PAUSED)
            assert look is not None
            if look[0]:
                settle(transaction)
            owned = _owned(claim, transaction)
            if names is None and not look[1]:
                return _claimed(transaction, transaction.rows(statements.CLAIM_NEXT, limit=limit, **owned))
            wanted = claimable_names(transaction, names, paused_names(transaction) if look[1] else frozenset())
            heads = [transaction.rows(statements.HEADS_OF_NAME, name=name, limit=limit) for name in wanted]
            best = [row[1] for row in heapq.nsmallest(limit, (row for rows in heads for row in rows))]
            if not best:
                return []
            return _claimed(transaction, transaction.rows(statements.CLAIM_IDS, ids=json.dumps(best), **owned))

    def claimed_under(self, claim_id: str) -> list[Entry]:
        with self.database.write() as transaction:
            settle(transaction)
            return [entry_of(row) for row in transaction.rows(statements.CLAIMED_UNDER, claim_id=claim_id)]

    def extend(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        with self.database.write() as transaction:
            settle(transaction)
            return [self._extend(transaction, renewal) for renewal in renewals]

    def _extend(self, transaction: Transaction, renewal: Renewal) -> Verdict:
        due_at = None if math.isinf(renewal.expiry) else transaction.now + renewal.expiry
        row = transaction.row(statements.EXTEND, **_fence(renewal.hold), due_at=due_at, progress=renewal.progress)
        return _told(transaction, EventKind.EXTENDED, renewal.hold, row)

    def checkpoint(self, hold: Hold, state: bytes) -> Verdict:
        with self.database.write() as transaction:
            settle(transaction)
            row = transaction.row(statements.CHECKPOINT, **_fence(hold), state=state)
            return _told(transaction, EventKind.CHECKPOINTED, hold, row)

    def consume(self, ends: Sequence[Consumption]) -> list[Verdict]:
        with self.database.write() as transaction:
            settle(transaction)
            verdicts, lines = [], []
            for end in ends:
                hold = end.hold
                row = transaction.row(
                    statements.CONSUME, **_fence(hold), result=end.result, retain_until=transaction.now + end.retention
                )
                if row is None:
                    verdicts.append(_repeated(transaction, hold, EventKind.CONSUMED))
                    continue
                lines.append(line(EventKind.CONSUMED, row[0], hold.uuid, row[1], hold.who, hold.token))
                verdicts.append(Verdict.DONE)
            if lines:
                transaction.run_many(statements.WRITE, lines)
            return verdicts

    def abandon(self, ends: Sequence[Return]) -> list[Verdict]:
        with self.database.write() as transaction:
            settle(transaction)
            return [_abandon(transaction, end) for end in ends]

    def trash(self, ends: Sequence[Discard]) -> list[Verdict]:
        with self.database.write() as transaction:
            settle(transaction)
            return [_trash(transaction, end) for end in ends]


def paused_names(transaction: Transaction) -> frozenset[str | None]:
    return frozenset(row[0] or None for row in transaction.rows(statements.PAUSED))


def claimable_names(transaction: Transaction, names: frozenset[str] | None, paused: frozenset[str | None]) -> list[str]:
    """Return the names that may be claimed from, without looking at jobs one by one."""
    if None in paused:
        return []
    wanted: Iterable[str] = _ready_names(transaction) if names is None else names
    return [name for name in wanted if name not in paused]


def _ready_names(transaction: Transaction) -> Iterable[str]:
    name = ""
    while (row := transaction.row(statements.NEXT_READY_NAME, name=name)) is not None and row[0] is not None:
        name = row[0]
        yield name


def _owned(claim: Claim, transaction: Transaction) -> dict[str, Any]:
    due_at = None if math.isinf(claim.expiry) else transaction.now + claim.expiry
    return {"who": claim.who, "claim_id": claim.claim_id, "due_at": due_at}


def _claimed(transaction: Transaction, rows: list[Any]) -> list[Entry]:
    """Write the claims down; rows that an UPDATE returns have no order of their own."""
    entries = [entry_of(row) for row in sorted(rows, key=lambda row: (row[3], row[0]))]
    if entries:
        transaction.run_many(statements.WRITE, [line_of(EventKind.CLAIMED, entry, entry.owner) for entry in entries])
    return entries


def _fence(hold: Hold) -> dict[str, Any]:
    return {"uuid": hold.uuid, "who": hold.who, "token": hold.token}


def _told(transaction: Transaction, kind: EventKind, hold: Hold, row: Any) -> Verdict:
    if row is None:
        return Verdict.LOST
    transaction.run(statements.DROP_UNRECORDED, job=row[0])
    transaction.run(statements.WRITE, **line(kind, row[0], hold.uuid, row[1], hold.who, hold.token))
    return Verdict.CANCEL_ASKED if row[2] else Verdict.DONE


def _repeated(transaction: Transaction, hold: Hold, *kinds: EventKind) -> Verdict:
    """Look into the journal for what this token did before."""
    names = json.dumps([kind.value for kind in kinds])
    row = transaction.row(statements.WAS_DONE, uuid=hold.uuid, token=hold.token, kinds=names)
    return Verdict.LOST if row is None else Verdict.REPEATED


def _abandon(transaction: Transaction, end: Return) -> Verdict:
    hold = end.hold
    row = transaction.row(statements.FIND_HELD, **_fence(hold))
    if row is None:
        return _repeated(transaction, hold, EventKind.ABANDONED, EventKind.CANCELLED)
    entry = entry_of(row)
    entry.reason = end.reason
    entry.last_error = end.error or (end.reason if end.counted else None) or entry.last_error
    if not end.counted:
        entry.attempts -= 1
    if entry.cancel_asked:
        take_off(transaction, entry)
        return Verdict.DONE
    write_down(transaction, EventKind.ABANDONED, entry, hold.who, end.reason)
    transaction.run(statements.TRIM_HISTORY, job=entry.sequence)
    if end.counted and is_used_up(entry):
        put_aside(transaction, entry, hold.who, used_up(entry, end.reason), entry.last_error)
    else:
        put_back(transaction, entry, transaction.now + end.delay if end.run_at is None else end.run_at)
    return Verdict.DONE


def _trash(transaction: Transaction, end: Discard) -> Verdict:
    if end.hold is not None:
        row = transaction.row(statements.FIND_HELD, **_fence(end.hold))
        if row is None:
            return _repeated(transaction, end.hold, EventKind.TRASHED)
        put_aside(transaction, entry_of(row), end.by, end.reason, end.error)
        return Verdict.DONE
    entry = find(transaction, end.uuid)
    if entry is not None and entry.state in LIVE:
        put_aside(transaction, entry, end.by, end.reason, end.error)
        return Verdict.DONE
    return Verdict.REPEATED if entry is not None and entry.state is JobState.TRASHED else Verdict.LOST
