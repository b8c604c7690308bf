"""What the owner of a claim does: extend, checkpoint, and the ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jobboard.attempts import is_used_up, last_error_after, used_up
from jobboard.backends.etcd.changing import Change, Changing, holds
from jobboard.backends.etcd.layout import Stored, under
from jobboard.backends.etcd.rows import Row, folded
from jobboard.backends.etcd.telling import told_of
from jobboard.entry import Consumption, Discard, Hold, JobState, Renewal, Return, Verdict
from jobboard.events import EventKind

#: What an abandon leaves in the history, according to what became of the job.
_RETURNS = (EventKind.ABANDONED, EventKind.CANCELLED)

_Decision = tuple[Verdict, Change | None]


class Ending(Changing):
    """Each change compares the claim's revision with the one that was read, and needs its lease to be there.

    This client remembers the jobs that it claimed, so that an end needs no read before it.
    """

    def extend(self, renewals: Sequence[Renewal]) -> list[Verdict]:
        return self._alter(
            renewals, lambda item: item.hold.uuid, self._extend, lambda item, job: holds(job, item.hold)
        )  # fmt: skip

    def _extend(self, renewal: Renewal, stored: Stored | None, now: float) -> _Decision:
        if stored is None or stored.row.grant is None or not holds(stored, renewal.hold):
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

    def checkpoint(self, hold: Hold, state: bytes) -> Verdict:
        def decide(hold: Hold, stored: Stored | None, now: float) -> _Decision:
            if stored is None or not holds(stored, hold):
                return Verdict.LOST, None
            row, grant = stored.row.copy(), stored.row.grant
            row.checkpoint, row.last_modified = state, now
            row.grant = None if grant is None else replace(grant, modified=now)
            return _going_on(row, EventKind.CHECKPOINTED, now)

        return self._alter([hold], lambda hold: hold.uuid, decide, lambda hold, job: holds(job, hold))[0]

    def consume(self, ends: Sequence[Consumption]) -> list[Verdict]:
        return self._alter(ends, lambda end: end.hold.uuid, _consumed, lambda end, job: holds(job, end.hold))

    def abandon(self, ends: Sequence[Return]) -> list[Verdict]:
        return self._alter(ends, lambda end: end.hold.uuid, self._abandoned, lambda end, job: holds(job, end.hold))

    def _abandoned(self, end: Return, stored: Stored | None, now: float) -> _Decision:
        hold = end.hold
        if stored is None or not holds(stored, hold):
            return _repeated_or_lost(stored, hold, _RETURNS)
        row = folded(stored.row)
        _explain(row, end.reason, end.error, failed=end.counted)
        if row.cancel_asked:
            row.take_off(now, hold.who, hold.token, end.reason)
            told = [told_of(row, EventKind.CANCELLED, now, hold.who, hold.token, end.reason)]
        elif end.counted and is_used_up(row):
            row.note(EventKind.ABANDONED, hold.who, now, hold.token, end.reason)
            told = [told_of(row, EventKind.ABANDONED, now, hold.who, hold.token, end.reason)]
            row.reason = used_up(row, end.reason)
            row.discard(now, hold.who, hold.token, row.reason)
            told.append(told_of(row, EventKind.TRASHED, now, hold.who, hold.token, row.reason))
        else:
            row.attempts -= not end.counted
            delay = self.end_of(end.delay) if end.delay > 0 else end.run_at
            # What only later versions can read goes back to where it was: a delay would stand in its record.
            row.put_back(None if row.newer is not None else delay, now)
            row.note(EventKind.ABANDONED, hold.who, now, hold.token, end.reason)
            told = [told_of(row, EventKind.ABANDONED, now, hold.who, hold.token, end.reason)]
        return Verdict.DONE, Change(row, told, is_fenced=True)

    def trash(self, ends: Sequence[Discard]) -> list[Verdict]:
        return self._alter(
            ends, lambda end: end.uuid, _trashed, lambda end, job: end.hold is not None and holds(job, end.hold)
        )


def _going_on(row: Row, kind: EventKind, now: float) -> tuple[Verdict, Change]:
    """Tell of a change that is not written into the history."""
    grant = row.grant
    assert grant is not None
    told = told_of(row, kind, now, grant.who, row.granted)
    return Verdict.CANCEL_ASKED if grant.cancel_asked else Verdict.DONE, Change(row, [told], is_fenced=True)


def _consumed(end: Consumption, stored: Stored | None, now: float) -> _Decision:
    hold = end.hold
    if stored is not None and holds(stored, hold):
        row = folded(stored.row)
        row.owner, row.result = hold.who, end.result
        row.complete(now, end.retention)
        row.note(EventKind.CONSUMED, hold.who, now, hold.token)
        told = told_of(row, EventKind.CONSUMED, now, hold.who, hold.token)
        return Verdict.DONE, Change(row, [told], is_fenced=True, retention=end.retention)
    if stored is None or stored.row.state is not JobState.COMPLETE:
        return Verdict.LOST, None
    is_same = (stored.row.owner, stored.row.token) == (hold.who, hold.token)
    return Verdict.REPEATED if is_same else Verdict.LOST, None


def _trashed(end: Discard, stored: Stored | None, now: float) -> _Decision:
    hold = end.hold
    if hold is not None and (stored is None or not holds(stored, hold)):
        return _repeated_or_lost(stored, hold, (EventKind.TRASHED,))
    if stored is None or not stored.row.is_live:
        is_there = stored is not None and stored.row.state is JobState.TRASHED
        return Verdict.REPEATED if is_there else Verdict.LOST, None
    token = stored.row.granted if stored.row.grant is not None else None
    who = end.by if hold is None else hold.who
    row = folded(stored.row)
    _explain(row, end.reason, end.error, failed=True)
    row.discard(now, who, token, end.reason)
    told = told_of(row, EventKind.TRASHED, now, who, token, end.reason)
    return Verdict.DONE, Change(row, [told], is_fenced=hold is not None)


def _repeated_or_lost(stored: Stored | None, hold: Hold, kinds: tuple[EventKind, ...]) -> _Decision:
    is_known = stored is not None and stored.row.has_note(kinds, hold.token, hold.who)
    return Verdict.REPEATED if is_known else Verdict.LOST, None


def _explain(row: Row, reason: str | None, error: str | None, *, failed: bool) -> None:
    row.reason, row.last_error = reason, last_error_after(row, reason, error, failed=failed)
