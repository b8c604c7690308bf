"""The producers' primitives on a shelf."""

from __future__ import annotations

from collections.abc import Sequence

from jobboard.backend import Backend
from jobboard.backends.memory.shelf import Row, Shelf, clock
from jobboard.entry import Entry, Gone, IfExists, JobState, NewEntry, Posted, PostOutcome
from jobboard.events import EventKind


class Posting(Backend):
    """Post and cancel."""

    shelf: Shelf

    def post(self, entries: Sequence[NewEntry]) -> list[Posted]:
        shelf = self.shelf
        with shelf.lock:
            now = clock()
            shelf.settle(now)
            outcomes = self._foresee(entries)
            if PostOutcome.TAKEN in outcomes:
                return [self._refuse(new, outcome, now) for new, outcome in zip(entries, outcomes, strict=True)]
            return [self._post(new, now) for new in entries]

    def _foresee(self, entries: Sequence[NewEntry]) -> list[PostOutcome]:
        """Return what will become of each, given that all before it were posted."""
        ahead: set[tuple[str, str]] = set()
        return [self._outcome_of(new, ahead) for new in entries]

    def _outcome_of(self, new: NewEntry, ahead: set[tuple[str, str]]) -> PostOutcome:
        if new.uuid in self.shelf.rows:
            return PostOutcome.SAME
        if new.key is None:
            return PostOutcome.POSTED
        identity = (new.name, new.key)
        there = self.shelf.keys.get(identity)
        if there is None and identity not in ahead:
            ahead.add(identity)
            return PostOutcome.POSTED
        if there is not None and _was_replaced_by(self.shelf.rows[there], new.uuid):
            return PostOutcome.SAME
        if new.if_exists is IfExists.KEEP:
            return PostOutcome.KEPT
        claimed = there is not None and self.shelf.rows[there].entry.state is JobState.CLAIMED
        if new.if_exists is IfExists.RAISE or claimed:
            return PostOutcome.TAKEN
        return PostOutcome.REPLACED

    def _refuse(self, new: NewEntry, outcome: PostOutcome, now: float) -> Posted:
        there = self.shelf.keys.get((new.name, new.key)) if new.key is not None else None
        entry = self.shelf.rows[there].copy() if there else self._new_row(new, now, 0).entry
        return Posted(outcome, entry)

    def _post(self, new: NewEntry, now: float) -> Posted:
        shelf = self.shelf
        outcome = self._outcome_of(new, set())
        if outcome is PostOutcome.POSTED:
            shelf.last_sequence += 1
            row = self._new_row(new, now, shelf.last_sequence)
            shelf.add(row)
            shelf.tell(row, EventKind.POSTED, now)
            shelf.put_back(row, now, _due_of(new, now))
            return Posted(outcome, row.copy())
        row = shelf.rows[new.uuid] if new.uuid in shelf.rows else shelf.rows[shelf.keys[new.name, new.key or ""]]
        if outcome is PostOutcome.REPLACED:
            self._replace(row, new, now)
        return Posted(outcome, row.copy())

    def _new_row(self, new: NewEntry, now: float, sequence: int) -> Row:
        entry = Entry(new.uuid, new.name, new.priority, sequence, now, new.body, new.key, new.run_at, new.max_attempts)
        return Row(entry)

    def _replace(self, row: Row, new: NewEntry, now: float) -> None:
        entry = row.entry
        self.shelf.place_again(row, new.priority)
        entry.body, entry.max_attempts, entry.run_at = new.body, new.max_attempts, new.run_at
        self.shelf.tell(row, EventKind.REPLACED, now, reason=new.uuid)
        self.shelf.put_back(row, now, _due_of(new, now))

    def cancel(self, uuids: Sequence[str]) -> list[Gone]:
        with self.shelf.lock:
            now = clock()
            self.shelf.settle(now)
            return [self._cancel(uuid, now) for uuid in uuids]

    def _cancel(self, uuid: str, now: float) -> Gone:
        row = self.shelf.rows.get(uuid)
        if row is None:
            return Gone.MISSING
        entry = row.entry
        if entry.state is JobState.CLAIMED:
            if not entry.cancel_asked:
                entry.cancel_asked = True
                self.shelf.tell(row, EventKind.CANCEL_ASKED, now, entry.owner)
            return Gone.ASKED
        if entry.state in (JobState.UNCLAIMED, JobState.DELAYED):
            entry.cancel_asked = True
            self.shelf.is_cancelled(row, now)
            return Gone.CANCELLED
        return Gone.REPEATED if row.lines[-1][0] is EventKind.CANCELLED else Gone.MISSING


def _due_of(new: NewEntry, now: float) -> float | None:
    return now + new.delay if new.delay is not None else new.run_at


def _was_replaced_by(row: Row, uuid: str) -> bool:
    return any(line[0] is EventKind.REPLACED and line[4] == uuid for line in row.lines)
