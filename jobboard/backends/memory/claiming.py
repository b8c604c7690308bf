"""The consumers' primitives: claim, extend, checkpoint, and the ends of a claim."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from jobboard.backends.attempts import is_used_up, last_error_after, used_up
from jobboard.backends.memory.client import Client
from jobboard.backends.memory.row import Row, sequence_of
from jobboard.backends.memory.shelf import end_of_claim
from jobboard.backends.ordered import walk
from jobboard.backends.rows import Abandonment, ClaimRequest, Consumption, Extension, Fence, JobRow, Trashing, Verdict
from jobboard.events import EventKind, JobEvent
from jobboard.states import JobState
from jobboard.validation import moment

#: What an abandon leaves in the history, according to what became of the job.
_RETURNS = (EventKind.ABANDONED, EventKind.CANCELLED)


class Claiming(Client):
    """Each end is fenced by the whole hold: uuid, owner and token."""

    def claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        with self._lock:
            now = self._begin()
            shelf = self._shelf
            row = shelf.rows.get(uuid)
            if row is None or row.line is None:
                return None
            if row.line is shelf.unclaimed and shelf.paused.isdisjoint((None, row.name)):
                shelf.grant(row, claim, now)
            return row.copy()

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        with self._lock:
            now = self._begin()
            shelf = self._shelf
            if None in shelf.paused:
                return []
            places = list(islice(walk(shelf.unclaimed.orders(names, shelf.paused)), limit))
            rows = [shelf.by_sequence[sequence_of(place)] for place in places]
            for row in rows:
                shelf.grant(row, claim, now)
            return [row.copy() for row in rows]

    def claimed_under(self, claim_id: str) -> list[JobRow]:
        with self._lock:
            self._begin()
            rows = (self._shelf.by_sequence[sequence_of(place)] for place in self._shelf.claimed.whole)
            return [row.copy() for row in rows if row.claim_id == claim_id]

    def extend(self, renewals: Sequence[Extension]) -> list[Verdict]:
        with self._lock:
            now = self._begin()
            return [self._extend(renewal, now) for renewal in renewals]

    def _extend(self, renewal: Extension, now: float) -> Verdict:
        row = self._held(renewal.fence)
        if row is None:
            return Verdict.LOST
        row.expires_at = end_of_claim(renewal.expiry, now)
        if renewal.progress is not None:
            row.progress = renewal.progress
        self._shelf.reschedule(row)
        return self._touched(row, EventKind.EXTENDED, now)

    def checkpoint(self, fence: Fence, state: bytes) -> Verdict:
        with self._lock:
            now = self._begin()
            row = self._held(fence)
            if row is None:
                return Verdict.LOST
            row.checkpoint = state
            return self._touched(row, EventKind.CHECKPOINTED, now)

    def consume(self, ends: Sequence[Consumption]) -> list[Verdict]:
        with self._lock:
            now = self._begin()
            verdicts = [self._consume(end, now) for end in ends]
            # At full speed more is completed than a tidy now and then could forget.
            self._shelf.forget(2 * len(ends), now)
            return verdicts

    def _consume(self, end: Consumption, now: float) -> Verdict:
        row = self._held(end.fence)
        if row is not None:
            self._shelf.complete_with(row, end.result, end.retention, now)
            return Verdict.DONE
        row = self._shelf.rows.get(end.fence.uuid)
        if row is None or row.state is not JobState.COMPLETE:
            return Verdict.LOST
        return Verdict.REPEATED if (row.owner, row.token) == (end.fence.who, end.fence.token) else Verdict.LOST

    def abandon(self, ends: Sequence[Abandonment]) -> list[Verdict]:
        with self._lock:
            now = self._begin()
            return [self._abandon(end, now) for end in ends]

    def _abandon(self, end: Abandonment, now: float) -> Verdict:
        fence = end.fence
        row = self._held(fence)
        if row is None:
            return self._repeated_or_lost(fence, _RETURNS)
        _explain(row, end.reason, end.error, failed=end.counted)
        if row.cancel_asked:
            self._shelf.take_off(row, now, fence.who, fence.token, end.reason)
        elif end.counted and is_used_up(row):
            self._shelf.write(row, EventKind.ABANDONED, now, fence.who, fence.token, end.reason)
            row.reason = used_up(row, end.reason)
            self._shelf.discard(row, now, fence.who, fence.token, row.reason)
        else:
            if not end.counted:
                row.attempts -= 1
            run_at = now + end.delay if end.delay > 0 else end.run_at
            self._shelf.put_back(row, EventKind.ABANDONED, now, end.reason, run_at)
        return Verdict.DONE

    def trash(self, ends: Sequence[Trashing]) -> list[Verdict]:
        with self._lock:
            now = self._begin()
            return [self._trash(end, end.fence, now) for end in ends]

    def _trash(self, end: Trashing, fence: Fence | None, now: float) -> Verdict:
        shelf = self._shelf
        row = shelf.rows.get(end.uuid) if fence is None else self._held(fence)
        if fence is None and row is not None and not shelf.is_live(row):
            return Verdict.REPEATED if row.line is shelf.trashed else Verdict.LOST
        if row is None:
            return Verdict.LOST if fence is None else self._repeated_or_lost(fence, (EventKind.TRASHED,))
        _explain(row, end.reason, end.error, failed=True)
        token = row.token if row.line is shelf.claimed else None
        shelf.discard(row, now, end.by if fence is None else fence.who, token, end.reason)
        return Verdict.DONE

    # -- inside ----------------------------------------------------------------------------------------------------

    def _held(self, fence: Fence) -> Row | None:
        """Return the row if this hold is the present one."""
        row = self._shelf.rows.get(fence.uuid)
        if row is None or row.line is not self._shelf.claimed or row.token != fence.token or row.owner != fence.who:
            return None
        return row

    def _repeated_or_lost(self, fence: Fence, kinds: tuple[EventKind, ...]) -> Verdict:
        row = self._shelf.rows.get(fence.uuid)
        if row is not None and row.has_note(kinds, fence.token, fence.who):
            return Verdict.REPEATED
        return Verdict.LOST

    def _touched(self, row: Row, kind: EventKind, now: float) -> Verdict:
        """Tell of a change that is not written into the history."""
        row.last_modified = now
        if self._shelf.listeners:
            self._shelf.tell(JobEvent(kind, row.uuid, row.name, row.owner, row.token, moment(now)))
        return Verdict.CANCEL_ASKED if row.cancel_asked else Verdict.DONE


def _explain(row: Row, reason: str | None, error: str | None, *, failed: bool) -> None:
    row.reason, row.last_error = reason, last_error_after(row, reason, error, failed=failed)
