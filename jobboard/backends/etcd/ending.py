"""What the owner of a claim does: extend, checkpoint, and the ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jobboard.backends.attempts import is_used_up, last_error_after, used_up
from jobboard.backends.etcd.changing import Change, Changing, holds
from jobboard.backends.etcd.layout import Stored, under
from jobboard.backends.etcd.rows import Row, folded
from jobboard.backends.etcd.telling import told_of
from jobboard.backends.rows import Abandonment, Consumption, Extension, Fence, Trashing, Verdict
from jobboard.events import EventKind
from jobboard.states import JobState

#: What an abandon leaves in the history, according to what became of the job.
_RETURNS = (EventKind.ABANDONED, EventKind.CANCELLED)

_Decision = tuple[Verdict, Change | None]


class Ending(Changing):
    """Each change compares the claim's revision with the one that was read, and needs its lease to be there.

    This client remembers the jobs that it claimed, so that an end needs no read before it.
    """

    def extend(self, renewals: Sequence[Extension]) -> list[Verdict]:
        return self._alter(
            renewals, lambda item: item.fence.uuid, self._extend, lambda item, job: holds(job, item.fence)
        )  # fmt: skip

    def _extend(self, renewal: Extension, stored: Stored | None, now: float) -> _Decision:
        if stored is None or stored.row.grant is None or not holds(stored, renewal.fence):
            return Verdict.LOST, None
        row, grant = stored.row.copy(), stored.row.grant
        progress = grant.progress if renewal.progress is None else renewal.progress
        row.grant = replace(
            grant,
            lease=self.leases.for_claims(renewal.expiry),
            expires_at=self.end_of_claim(renewal.expiry),
            progress=progress,
            modified=now,
        )
        verdict, change = _going_on(row, EventKind.EXTENDED, now)
        change.compares += under(self.keys, row.grant)
        return verdict, change

    def checkpoint(self, fence: Fence, state: bytes) -> Verdict:
        def decide(fence: Fence, stored: Stored | None, now: float) -> _Decision:
            if stored is None or not holds(stored, fence):
                return Verdict.LOST, None
            row, grant = stored.row.copy(), stored.row.grant
            row.checkpoint, row.last_modified = state, now
            row.grant = None if grant is None else replace(grant, modified=now)
            return _going_on(row, EventKind.CHECKPOINTED, now)

        return self._alter([fence], lambda fence: fence.uuid, decide, lambda fence, job: holds(job, fence))[0]

    def consume(self, ends: Sequence[Consumption]) -> list[Verdict]:
        return self._alter(ends, lambda end: end.fence.uuid, _consumed, lambda end, job: holds(job, end.fence))

    def abandon(self, ends: Sequence[Abandonment]) -> list[Verdict]:
        return self._alter(ends, lambda end: end.fence.uuid, self._abandoned, lambda end, job: holds(job, end.fence))

    def _abandoned(self, end: Abandonment, stored: Stored | None, now: float) -> _Decision:
        fence = end.fence
        if stored is None or not holds(stored, fence):
            return _repeated_or_lost(stored, fence, _RETURNS)
        row = folded(stored.row)
        _explain(row, end.reason, end.error, failed=end.counted)
        if row.cancel_asked:
            row.take_off(now, fence.who, fence.token, end.reason)
            told = [told_of(row, EventKind.CANCELLED, now, fence.who, fence.token, end.reason)]
        elif end.counted and is_used_up(row):
            row.note(EventKind.ABANDONED, fence.who, now, fence.token, end.reason)
            told = [told_of(row, EventKind.ABANDONED, now, fence.who, fence.token, end.reason)]
            row.reason = used_up(row, end.reason)
            row.discard(now, fence.who, fence.token, row.reason)
            told.append(told_of(row, EventKind.TRASHED, now, fence.who, fence.token, row.reason))
        else:
            row.attempts -= not end.counted
            delay = self.end_of(end.delay) if end.delay > 0 else end.run_at
            # What only later versions can read goes back to where it was: a delay would stand in its record.
            row.put_back(None if row.newer is not None else delay, now)
            row.note(EventKind.ABANDONED, fence.who, now, fence.token, end.reason)
            told = [told_of(row, EventKind.ABANDONED, now, fence.who, fence.token, end.reason)]
        return Verdict.DONE, Change(row, told, is_fenced=True)

    def trash(self, ends: Sequence[Trashing]) -> list[Verdict]:
        return self._alter(
            ends, lambda end: end.uuid, _trashed, lambda end, job: end.fence is not None and holds(job, end.fence)
        )


def _going_on(row: Row, kind: EventKind, now: float) -> tuple[Verdict, Change]:
    """Tell of a change that is not written into the history."""
    grant = row.grant
    assert grant is not None
    told = told_of(row, kind, now, grant.who, row.granted)
    return Verdict.CANCEL_ASKED if grant.cancel_asked else Verdict.DONE, Change(row, [told], is_fenced=True)


def _consumed(end: Consumption, stored: Stored | None, now: float) -> _Decision:
    fence = end.fence
    if stored is not None and holds(stored, fence):
        row = folded(stored.row)
        row.owner, row.result = fence.who, end.result
        row.complete(now, end.retention)
        row.note(EventKind.CONSUMED, fence.who, now, fence.token)
        told = told_of(row, EventKind.CONSUMED, now, fence.who, fence.token)
        return Verdict.DONE, Change(row, [told], is_fenced=True, retention=end.retention)
    if stored is None or stored.row.state is not JobState.COMPLETE:
        return Verdict.LOST, None
    is_same = (stored.row.owner, stored.row.token) == (fence.who, fence.token)
    return Verdict.REPEATED if is_same else Verdict.LOST, None


def _trashed(end: Trashing, stored: Stored | None, now: float) -> _Decision:
    fence = end.fence
    if fence is not None and (stored is None or not holds(stored, fence)):
        return _repeated_or_lost(stored, fence, (EventKind.TRASHED,))
    if stored is None or not stored.row.is_live:
        is_there = stored is not None and stored.row.state is JobState.TRASHED
        return Verdict.REPEATED if is_there else Verdict.LOST, None
    token = stored.row.granted if stored.row.grant is not None else None
    who = end.by if fence is None else fence.who
    row = folded(stored.row)
    _explain(row, end.reason, end.error, failed=True)
    row.discard(now, who, token, end.reason)
    told = told_of(row, EventKind.TRASHED, now, who, token, end.reason)
    return Verdict.DONE, Change(row, [told], is_fenced=fence is not None)


def _repeated_or_lost(stored: Stored | None, fence: Fence, kinds: tuple[EventKind, ...]) -> _Decision:
    is_known = stored is not None and stored.row.has_note(kinds, fence.token, fence.who)
    return Verdict.REPEATED if is_known else Verdict.LOST, None


def _explain(row: Row, reason: str | None, error: str | None, *, failed: bool) -> None:
    row.reason, row.last_error = reason, last_error_after(row, reason, error, failed=failed)
