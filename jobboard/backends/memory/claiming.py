"""The consumers' primitives on a shelf."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jobboard.backend import Backend
from jobboard.backends.memory.operating import was_done
from jobboard.backends.memory.shelf import Row, Shelf, clock, used_up
from jobboard.entry import (
    LIVE,
    Claim,
    Consumption,
    Discard,
    Entry,
    Hold,
    JobState,
    Renewal,
    Return,
    Verdict,
)
from jobboard.events import EventKind


class Claiming(Backend):
    """Claim, extend, checkpoint, and the ends of a claim."""

    shelf: Shelf

    def claim(self, uuid: str, claim: Claim) -> Entry | None:
        shelf = self.shelf
        with shelf.lock:
            now = clock()
            shelf.settle(now)
            row = shelf.visible(uuid, now)
            if row is None:
                return None
            entry = row.entry
            is_paused = None in shelf.paused or entry.name in shelf.paused
            if entry.state is JobState.UNCLAIMED and not is_paused:
                self._own(row, claim, now)
            return row.copy()

    def claim_next(self, claim: Claim, names: frozenset[str] | None, limit: int) -> list[Entry]:
        shelf = self.shelf
        with shelf.lock:
            now = clock()
            shelf.settle(now)
            rows = [shelf.rows[uuid] for uuid in shelf.ready.take(shelf.claimable_names(names), limit)]
            for row in rows:
                self._own(row, claim, now)
            return [row.copy() for row in rows]

    def _own(self, row: Row, claim: Claim, now: float) -> None:
        entry = row.entry
        entry.attempts += 1
        entry.token += 1
        entry.owner, entry.claim_id = claim.who, claim.claim_id
        entry.expires_at = None if math.isinf(claim.expiry) else now + claim.expiry
        self.shelf.enter(row, JobState.CLAIMED, entry.expires_at)
        self.shelf.tell(row, EventKind.CLAIMED, now, claim.who)

    def claimed_under(self, claim_id: str) -> list[Entry]:
        shelf = self.shelf
        with shelf.lock:
            shelf.settle(clock())
            rows = [row for row in shelf.rows.values() if row.entry.claim_id == claim_id]
            return [row.copy() for row in sorted(rows, key=lambda row: row.place)]

    def extend(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        with self.shelf.lock:
            now = clock()
            self.shelf.settle(now)
            return [self._extend(renewal, now) for renewal in renewals]

    def _extend(self, renewal: Renewal, now: float) -> Verdict:
        row = self._held(renewal.hold)
        if row is None:
            return Verdict.LOST
        entry = row.entry
        entry.expires_at = None if math.isinf(renewal.expiry) else now + renewal.expiry
        if renewal.progress is not None:
            entry.progress = renewal.progress
        self.shelf.set_due(row, entry.expires_at)
        self.shelf.tell(row, EventKind.EXTENDED, now, entry.owner)
        return _told(row)

    def consume(self, ends: Sequence[Consumption]) -> list[Verdict]:
        with self.shelf.lock:
            now = clock()
            self.shelf.settle(now)
            return [self._consume(end, now) for end in ends]

    def _consume(self, end: Consumption, now: float) -> Verdict:
        row = self._held(end.hold)
        if row is None:
            return self._repeated(end.hold, EventKind.CONSUMED)
        row.entry.result = end.result
        self.shelf.complete(row, now + end.retention)
        self.shelf.tell(row, EventKind.CONSUMED, now, end.hold.who)
        return Verdict.DONE

    def abandon(self, ends: Sequence[Return]) -> list[Verdict]:
        with self.shelf.lock:
            now = clock()
            self.shelf.settle(now)
            return [self._abandon(end, now) for end in ends]

    def _abandon(self, end: Return, now: float) -> Verdict:
        row = self._held(end.hold)
        if row is None:
            return self._repeated(end.hold, EventKind.ABANDONED, EventKind.CANCELLED)
        shelf, entry = self.shelf, row.entry
        entry.reason = end.reason
        if end.counted:
            entry.last_error = end.error or end.reason or entry.last_error
        else:
            entry.attempts -= 1
            entry.last_error = end.error or entry.last_error
        if shelf.is_cancelled(row, now):
            return Verdict.DONE
        shelf.tell(row, EventKind.ABANDONED, now, entry.owner, end.reason)
        if end.counted and shelf.is_used_up(row):
            shelf.put_aside(row, now, end.hold.who, used_up(entry, end.reason), entry.last_error)
        else:
            shelf.put_back(row, now, now + end.delay if end.run_at is None else end.run_at)
        return Verdict.DONE

    def trash(self, ends: Sequence[Discard]) -> list[Verdict]:
        with self.shelf.lock:
            now = clock()
            self.shelf.settle(now)
            return [self._trash(end, now) for end in ends]

    def _trash(self, end: Discard, now: float) -> Verdict:
        row = self.shelf.rows.get(end.uuid) if end.hold is None else self._held(end.hold)
        if row is not None and row.entry.state in LIVE:
            self.shelf.put_aside(row, now, end.by, end.reason, end.error)
            return Verdict.DONE
        if end.hold is not None:
            return self._repeated(end.hold, EventKind.TRASHED)
        return Verdict.REPEATED if row is not None and row.entry.state is JobState.TRASHED else Verdict.LOST

    def checkpoint(self, hold: Hold, state: bytes) -> Verdict:
        with self.shelf.lock:
            now = clock()
            self.shelf.settle(now)
            row = self._held(hold)
            if row is None:
                return Verdict.LOST
            row.entry.checkpoint = state
            self.shelf.tell(row, EventKind.CHECKPOINTED, now, hold.who)
            return _told(row)

    def _held(self, hold: Hold) -> Row | None:
        """Return the row if it is claimed by exactly this hold: the fence."""
        row = self.shelf.rows.get(hold.uuid)
        if row is None:
            return None
        entry = row.entry
        if entry.state is not JobState.CLAIMED or entry.token != hold.token or entry.owner != hold.who:
            return None
        return row

    def _repeated(self, hold: Hold, *kinds: EventKind) -> Verdict:
        row = self.shelf.rows.get(hold.uuid)
        return Verdict.REPEATED if row is not None and was_done(row, kinds, hold.token) else Verdict.LOST


def _told(row: Row) -> Verdict:
    return Verdict.CANCEL_ASKED if row.entry.cancel_asked else Verdict.DONE
