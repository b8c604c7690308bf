"""The consumers' primitives: claim, extend, checkpoint, and the ends of a claim."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from jobboard.backends.attempts import is_used_up, used_up
from jobboard.backends.rows import Abandonment, ClaimRequest, Consumption, Extension, Fence, JobRow, Trashing, Verdict
from jobboard.backends.zookeeper.client import Client
from jobboard.backends.zookeeper.editing import Fate
from jobboard.backends.zookeeper.engine import Conflict
from jobboard.backends.zookeeper.moves import (
    complete,
    discard,
    end_of_claim,
    explain,
    grant,
    is_held,
    is_hidden,
    put_back,
    take_off,
)
from jobboard.backends.zookeeper.record import Record
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind
from jobboard.states import JobState

#: What an abandon leaves in the history, according to what became of the job.
_RETURNS = (EventKind.ABANDONED, EventKind.CANCELLED)

_ROUNDS = 200


class Claiming(Client):
    """Each end is fenced by the whole hold: uuid, owner and token; and by the version of what was looked at."""

    def claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        self._begin()
        for _ in range(_ROUNDS):
            # What is paused is looked at first; the transaction makes sure that it is so still.
            paused, version = self._read_paused()
            (record,) = self._editor.records([uuid])
            if record is None or is_hidden(record, self._clock.now()):
                return None
            if record.state is not JobState.UNCLAIMED or not paused.isdisjoint((None, record.name)):
                return record.copy()
            try:
                self._grant([record], claim, version)
                return record.copy()
            except Conflict:
                continue
        raise BoardUnavailable("others change this job faster than this client can")

    def _grant(self, records: Sequence[Record], claim: ClaimRequest, paused: int, ready: int | None = None) -> None:
        """Own these jobs, all or none.

        :param paused: the version of what is paused; a pause since then keeps the claim from happening.
        :param ready: the version of what counts the jobs that became claimable, if nothing may have been added.
        """
        presence = self._sessions.mine()
        now = self._clock.now()
        writing = self._engine.begin()
        self._engine.expect(writing, records)
        writing.check(self._layout.session(presence))
        writing.check(self._layout.paused, paused)
        if ready is not None:
            writing.check(self._layout.ready, ready)
        for record in records:
            grant(record, claim, now, presence)
            self._engine.write(writing, record, was_live=True)
        try:
            self._engine.commit(writing)
        except Conflict as conflict:
            if conflict.path == self._layout.session(presence):
                # Somebody deleted it, or the session has ended and kazoo has not been told yet.
                self._sessions.give_up()
            raise
        for record in records:
            self._editor.hold(record)

    def extend(self, renewals: Sequence[Extension]) -> list[Verdict]:
        self._check_open()
        lost = [self._is_lost(renewal.fence) for renewal in renewals]
        if all(lost):
            return [Verdict.LOST] * len(renewals)
        self._begin()
        steps = [
            (renewal.fence.uuid, partial(_extend, renewal))
            for renewal, is_lost in zip(renewals, lost, strict=True)
            if not is_lost
        ]
        verdicts = iter(self._editor.edit(steps, use_held=True))
        return [Verdict.LOST if is_lost else next(verdicts) for is_lost in lost]

    def _is_lost(self, fence: Fence) -> bool:
        """Whether a claim of this client went with its session, which needs no server to tell."""
        record = self._editor.held(fence.uuid)
        if record is None or record.presence is None or record.token != fence.token:
            return False
        return self._sessions.has_given_up(record.presence)

    def checkpoint(self, fence: Fence, state: bytes) -> Verdict:
        self._begin()
        return self._editor.edit([(fence.uuid, partial(_checkpoint, fence, state))], use_held=True)[0]

    def consume(self, ends: Sequence[Consumption]) -> list[Verdict]:
        self._begin()
        return self._editor.edit([(end.fence.uuid, partial(_consume, end)) for end in ends], use_held=True)

    def abandon(self, ends: Sequence[Abandonment]) -> list[Verdict]:
        self._begin()
        return self._editor.edit([(end.fence.uuid, partial(_abandon, end)) for end in ends], use_held=True)

    def trash(self, ends: Sequence[Trashing]) -> list[Verdict]:
        self._begin()
        return self._editor.edit(
            [(end.uuid if end.fence is None else end.fence.uuid, partial(_trash, end)) for end in ends], use_held=True
        )

    def claimed_under(self, claim_id: str) -> list[JobRow]:
        self._look_around()
        with self._listing.lock:
            places = list(self._listing.lines[JobState.CLAIMED].whole)
            uuids = [self._listing.by_place[place].uuid for place in places]
        found = self._editor.records(uuids)
        return [
            record.copy()
            for record in found
            if record is not None and record.state is JobState.CLAIMED and record.claim_id == claim_id
        ]


def _extend(renewal: Extension, record: Record | None, now: float) -> tuple[Verdict, Fate]:
    if record is None or not is_held(record, renewal.fence):
        return Verdict.LOST, Fate.KEPT
    record.expires_at = end_of_claim(renewal.expiry, now)
    if renewal.progress is not None:
        record.put("progress", renewal.progress)
    return _touched(record, EventKind.EXTENDED)


def _checkpoint(fence: Fence, state: bytes, record: Record | None, _now: float) -> tuple[Verdict, Fate]:
    if record is None or not is_held(record, fence):
        return Verdict.LOST, Fate.KEPT
    record.put("checkpoint", state)
    return _touched(record, EventKind.CHECKPOINTED)


def _touched(record: Record, kind: EventKind) -> tuple[Verdict, Fate]:
    record.tell(kind)
    return (Verdict.CANCEL_ASKED if record.cancel_asked else Verdict.DONE), Fate.WRITTEN


def _consume(end: Consumption, record: Record | None, now: float) -> tuple[Verdict, Fate]:
    if record is not None and is_held(record, end.fence):
        complete(record, end.result, end.retention, now)
        return Verdict.DONE, Fate.WRITTEN
    if record is None or record.state is not JobState.COMPLETE:
        return Verdict.LOST, Fate.KEPT
    is_mine = (record.owner, record.token) == (end.fence.who, end.fence.token)
    return (Verdict.REPEATED if is_mine else Verdict.LOST), Fate.KEPT


def _abandon(end: Abandonment, record: Record | None, now: float) -> tuple[Verdict, Fate]:
    fence = end.fence
    if record is None or not is_held(record, fence):
        return _repeated_or_lost(record, fence, _RETURNS), Fate.KEPT
    explain(record, end.reason, end.error, as_error=end.counted)
    if record.cancel_asked:
        take_off(record, now, fence.who, fence.token, end.reason)
    elif end.counted and is_used_up(record):
        record.note(EventKind.ABANDONED, fence.who, fence.token, end.reason)
        record.explain(used_up(record, end.reason))
        discard(record, fence.who, fence.token, record.reason)
    else:
        if not end.counted:
            record.attempts -= 1
        run_at = now + end.delay if end.delay > 0 else end.run_at
        put_back(record, EventKind.ABANDONED, now, end.reason, run_at)
    return Verdict.DONE, Fate.WRITTEN


def _trash(end: Trashing, record: Record | None, _now: float) -> tuple[Verdict, Fate]:
    fence = end.fence
    if fence is None and record is not None and not record.is_live:
        return (Verdict.REPEATED if record.state is JobState.TRASHED else Verdict.LOST), Fate.KEPT
    if record is None or (fence is not None and not is_held(record, fence)):
        return (Verdict.LOST if fence is None else _repeated_or_lost(record, fence, (EventKind.TRASHED,))), Fate.KEPT
    explain(record, end.reason, end.error, as_error=True)
    token = record.token if record.state is JobState.CLAIMED else None
    discard(record, end.by if fence is None else fence.who, token, end.reason)
    return Verdict.DONE, Fate.WRITTEN


def _repeated_or_lost(record: Record | None, fence: Fence, kinds: tuple[EventKind, ...]) -> Verdict:
    if record is not None and record.has_note(kinds, fence.token, fence.who):
        return Verdict.REPEATED
    return Verdict.LOST
