"""The producers' primitives in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobboard.backends.base import Backend
from jobboard.backends.rows import CancelOutcome, IfExists, JobRow, NewJob, Posted, PostOutcome
from jobboard.backends.sql import statements
from jobboard.backends.sql.database import Database
from jobboard.backends.sql.rows import LARGEST, entry_of
from jobboard.backends.sql.schema import CODES
from jobboard.backends.sql.steps import find, line, settle, take_off, write_down
from jobboard.backends.sql.transaction import Transaction
from jobboard.events import EventKind
from jobboard.states import JobState


class Posting(Backend):
    """Post and cancel."""

    database: Database

    def post(self, entries: Sequence[NewJob]) -> list[Posted]:
        try:
            with self.database.write() as transaction:
                settle(transaction)
                return post_all(transaction, entries)
        except Taken as taken:
            return taken.answers

    def cancel(self, uuids: Sequence[str]) -> list[CancelOutcome]:
        with self.database.write() as transaction:
            settle(transaction)
            return [_cancel(transaction, uuid) for uuid in uuids]


class Taken(Exception):
    """Rolls a batch back."""

    def __init__(self, answers: list[Posted]) -> None:
        self.answers = answers


def post_all(transaction: Transaction, entries: Sequence[NewJob]) -> list[Posted]:
    """Post a batch as part of a transaction, which must not be committed if this raises :class:`Taken`."""
    answers = _Batch(transaction, entries).post()
    if any(answer.outcome is PostOutcome.TAKEN for answer in answers):
        raise Taken(answers)
    return answers


class _Batch:
    """Postings that go onto the board together; the new ones are inserted at once."""

    def __init__(self, transaction: Transaction, entries: Sequence[NewJob]) -> None:
        self._transaction = transaction
        self._entries = entries
        self._known = self._find_known()
        self._waiting: list[JobRow] = []
        self._waiting_keys: dict[tuple[str, str], JobRow] = {}
        self._taken_keys = self._find_taken_keys()

    def _find_known(self) -> dict[str, JobRow]:
        if len(self._entries) == 1:
            rows = self._transaction.rows(statements.FIND, uuid=self._entries[0].uuid)
        else:
            rows = self._transaction.rows(
                statements.FIND_MANY, uuids=self._transaction.list_of(new.uuid for new in self._entries)
            )
        return {entry.uuid: entry for entry in map(entry_of, rows)}

    def _find_taken_keys(self) -> dict[tuple[str, str], JobRow]:
        """Look for all keys of a name at once; jobs that are to be replaced are found and locked one by one."""
        keys: dict[str, set[str]] = {}
        for new in self._entries:
            if new.key is not None and new.if_exists is not IfExists.REPLACE:
                keys.setdefault(new.name, set()).add(new.key)
        found = [
            entry_of(row)
            for name, wanted in keys.items()
            for row in self._transaction.rows(statements.FIND_KEYS, name=name, keys=self._transaction.list_of(wanted))
        ]
        return {(entry.name, entry.key): entry for entry in found if entry.key is not None}

    def post(self) -> list[Posted]:
        answers = [self._post(new) for new in self._entries]
        self._insert()
        return answers

    def _post(self, new: NewJob) -> Posted:
        there = self._known.get(new.uuid)
        if there is not None:
            return Posted(PostOutcome.SAME, there)
        if new.key is not None:
            # Before it is known whether this was done already, the job is locked: the first try may still be at it.
            there = self._find_key(new.name, new.key, new.if_exists)
            if new.if_exists is IfExists.REPLACE:
                row = self._transaction.row(statements.REPLACED_BY, uuid=new.uuid)
                if row is not None:
                    return Posted(PostOutcome.SAME, entry_of(row))
            if there is not None and there.uuid == new.uuid:
                # The first try was committed between the two looks.
                return Posted(PostOutcome.SAME, there)
            if there is not None:
                return self._meet(new, there)
        return Posted(PostOutcome.POSTED, self._wait(new))

    def _find_key(self, name: str, key: str, if_exists: IfExists) -> JobRow | None:
        waiting = self._waiting_keys.get((name, key))
        if waiting is not None:
            return waiting
        if if_exists is not IfExists.REPLACE:
            return self._taken_keys.get((name, key))
        row = self._transaction.row(statements.FIND_KEY_TO_REPLACE, name=name, key=key)
        return None if row is None else entry_of(row)

    def _meet(self, new: NewJob, there: JobRow) -> Posted:
        """The key is taken."""
        if new.if_exists is IfExists.KEEP:
            return Posted(PostOutcome.KEPT, there)
        if new.if_exists is IfExists.RAISE or there.state is JobState.CLAIMED:
            return Posted(PostOutcome.TAKEN, there)
        self._insert()
        self._transaction.do(statements.REPLACE, id=there.sequence, **self._content_of(new))
        write_down(self._transaction, EventKind.REPLACED, there, reason=new.uuid)
        self._transaction.do(statements.TRIM_HISTORY, id=there.sequence)
        replaced = find(self._transaction, there.uuid) or there
        self._taken_keys[replaced.name, str(replaced.key)] = replaced
        return Posted(PostOutcome.REPLACED, replaced)

    def _wait(self, new: NewJob) -> JobRow:
        now, due = self._transaction.now, _due_of(new, self._transaction.now)
        entry = JobRow(
            new.uuid, new.name, new.priority, 0, now, new.body, new.key, _run_at_of(new, due), new.max_attempts,
            JobState.UNCLAIMED if due is None else JobState.DELAYED, last_modified=now,
        )  # fmt: skip
        self._known[new.uuid] = entry
        self._waiting.append(entry)
        if new.key is not None:
            self._waiting_keys[new.name, new.key] = entry
        return entry

    def _insert(self) -> None:
        """Insert those that wait, in their order, and learn their sequences."""
        if not self._waiting:
            return
        self._transaction.run_many(statements.POST, [_row_of(entry) for entry in self._waiting])
        uuids = self._transaction.list_of(entry.uuid for entry in self._waiting)
        sequences: dict[str, int] = dict(self._transaction.rows(statements.SEQUENCES, uuids=uuids))
        for entry in self._waiting:
            entry.sequence = sequences[entry.uuid]
            if entry.key is not None:
                self._taken_keys[entry.name, entry.key] = entry
        self._transaction.stirs = True
        self._transaction.run_many(
            statements.WRITE, [line(EventKind.POSTED, entry.sequence) for entry in self._waiting]
        )
        self._waiting.clear()
        self._waiting_keys.clear()

    def _content_of(self, new: NewJob) -> dict[str, Any]:
        due = _due_of(new, self._transaction.now)
        return {
            "rank": -new.priority,
            "body": new.body,
            "max_attempts": _attempts_of(new.max_attempts),
            "state": CODES[JobState.UNCLAIMED if due is None else JobState.DELAYED],
            "due_at": due,
            "run_at": _run_at_of(new, due),
        }


def _row_of(entry: JobRow) -> dict[str, Any]:
    return {
        "uuid": entry.uuid,
        "name": entry.name,
        "key": entry.key,
        "rank": -entry.priority,
        "body": entry.body,
        "max_attempts": _attempts_of(entry.max_attempts),
        "state": CODES[entry.state],
        "due_at": entry.run_at if entry.state is JobState.DELAYED else None,
        "run_at": entry.run_at,
    }


def _due_of(new: NewJob, now: float) -> float | None:
    """Return when the job becomes claimable, or None for at once."""
    due = now + new.delay if new.delay is not None else new.run_at
    return due if due is not None and due > now else None


def _run_at_of(new: NewJob, due: float | None) -> float | None:
    return new.run_at if due is None else due


def _attempts_of(most: int | None) -> int | None:
    return None if most is None else min(most, LARGEST)


def _cancel(transaction: Transaction, uuid: str) -> CancelOutcome:
    entry = find(transaction, uuid)
    if entry is None:
        return CancelOutcome.MISSING
    if entry.state is JobState.CLAIMED:
        if not entry.cancel_asked:
            transaction.do(statements.ASK_TO_END, id=entry.sequence)
            write_down(transaction, EventKind.CANCEL_ASKED, entry, entry.owner)
        return CancelOutcome.ASKED
    if entry.state in (JobState.UNCLAIMED, JobState.DELAYED):
        take_off(transaction, entry)
        return CancelOutcome.CANCELLED
    last = transaction.row(statements.LAST_LINE, id=entry.sequence)
    return CancelOutcome.REPEATED if last == (EventKind.CANCELLED.value,) else CancelOutcome.MISSING
