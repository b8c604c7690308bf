"""The producers' primitives in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backend import Backend
from jobboard.backends.sql import statements
from jobboard.backends.sql.database import Database, Transaction
from jobboard.backends.sql.rows import entry_of
from jobboard.backends.sql.schema import CODES
from jobboard.backends.sql.steps import find, line_of, settle, take_off, write_down
from jobboard.entry import Entry, Gone, IfExists, JobState, NewEntry, Posted, PostOutcome
from jobboard.events import EventKind


class _Taken(Exception):
    """Rolls a batch back."""

    def __init__(self, answers: list[Posted]) -> None:
        self.answers = answers


class Posting(Backend):
    """Post and cancel."""

    database: Database

    def post(self, entries: Sequence[NewEntry]) -> list[Posted]:
        try:
            with self.database.write() as transaction:
                settle(transaction)
                answers = [self._post(transaction, new) for new in entries]
                if any(answer.outcome is PostOutcome.TAKEN for answer in answers):
                    raise _Taken(answers)
                posted = [answer.entry for answer in answers if answer.outcome is PostOutcome.POSTED]
                transaction.run_many(statements.WRITE, [line_of(EventKind.POSTED, entry) for entry in posted])
                return answers
        except _Taken as taken:
            return taken.answers

    def _post(self, transaction: Transaction, new: NewEntry) -> Posted:
        known = find(transaction, new.uuid)
        if known is not None:
            return Posted(PostOutcome.SAME, known)
        if new.key is not None:
            if new.if_exists is IfExists.REPLACE:
                row = transaction.row(statements.REPLACED_BY, uuid=new.uuid)
                if row is not None:
                    return Posted(PostOutcome.SAME, entry_of(row))
            row = transaction.row(statements.FIND_KEY, name=new.name, key=new.key)
            if row is not None:
                return self._meet(transaction, new, entry_of(row))
        return Posted(PostOutcome.POSTED, self._insert(transaction, new))

    def _insert(self, transaction: Transaction, new: NewEntry) -> Entry:
        now, due = transaction.now, _due_of(new, transaction.now)
        state = JobState.UNCLAIMED if due is None else JobState.DELAYED
        run_at = new.run_at if due is None else due
        transaction.run(
            statements.POST,
            uuid=new.uuid,
            name=new.name,
            key=new.key,
            rank=-new.priority,
            body=new.body,
            max_attempts=new.max_attempts,
            state=CODES[state],
            due_at=due,
            run_at=run_at,
        )
        return Entry(
            new.uuid, new.name, new.priority, transaction.last_id, now, new.body, new.key, run_at, new.max_attempts,
            state, last_modified=now,
        )  # fmt: skip

    def _meet(self, transaction: Transaction, new: NewEntry, there: Entry) -> Posted:
        """The key is taken."""
        if new.if_exists is IfExists.KEEP:
            return Posted(PostOutcome.KEPT, there)
        if new.if_exists is IfExists.RAISE or there.state is JobState.CLAIMED:
            return Posted(PostOutcome.TAKEN, there)
        due = _due_of(new, transaction.now)
        transaction.run(
            statements.REPLACE,
            id=there.sequence,
            rank=-new.priority,
            body=new.body,
            max_attempts=new.max_attempts,
            state=CODES[JobState.UNCLAIMED if due is None else JobState.DELAYED],
            due_at=due,
            run_at=new.run_at if due is None else due,
        )
        write_down(transaction, EventKind.REPLACED, there, reason=new.uuid)
        replaced = find(transaction, there.uuid)
        return Posted(PostOutcome.REPLACED, replaced or there)

    def cancel(self, uuids: Sequence[str]) -> list[Gone]:
        with self.database.write() as transaction:
            settle(transaction)
            return [_cancel(transaction, uuid) for uuid in uuids]


def _cancel(transaction: Transaction, uuid: str) -> Gone:
    entry = find(transaction, uuid)
    if entry is None:
        return Gone.MISSING
    if entry.state is JobState.CLAIMED:
        if not entry.cancel_asked:
            transaction.run(statements.ASK_TO_END, id=entry.sequence)
            write_down(transaction, EventKind.CANCEL_ASKED, entry, entry.owner)
        return Gone.ASKED
    if entry.state in (JobState.UNCLAIMED, JobState.DELAYED):
        take_off(transaction, entry)
        return Gone.CANCELLED
    last = transaction.row(statements.LAST_LINE, id=entry.sequence)
    return Gone.REPEATED if last == (EventKind.CANCELLED.value,) else Gone.MISSING


def _due_of(new: NewEntry, now: float) -> float | None:
    """Return when the job becomes claimable, or None for at once."""
    due = now + new.delay if new.delay is not None else new.run_at
    return due if due is not None and due > now else None
