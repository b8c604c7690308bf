"""The operators' primitives: break claims, bring back from the trash, pause, tidy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from jobboard.backends.rows import TrashOutcome, Verdict
from jobboard.backends.zookeeper.checks import uuid_in
from jobboard.backends.zookeeper.client import Client
from jobboard.backends.zookeeper.editing import Fate
from jobboard.backends.zookeeper.engine import Conflict, certain
from jobboard.backends.zookeeper.moves import forgotten_at, put_back, state_at, take_off
from jobboard.backends.zookeeper.record import Record
from jobboard.backends.zookeeper.requests import MultiRead
from jobboard.backends.zookeeper.wire import pack
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind
from jobboard.states import JobState

_ROUNDS = 50


class Operating(Client):
    """Each change of a job is a transaction of its own, or shares one with the others of its batch."""

    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        self._begin()
        return self._editor.edit([(uuid, partial(_release, token, reason))])[0]

    def restore(self, uuids: Sequence[str]) -> list[TrashOutcome]:
        self._begin()
        restored: list[TrashOutcome] = []
        for uuid in uuids:
            try:
                restored.append(self._restore(uuid))
            except BoardUnavailable as error:
                raise certain(error, began=TrashOutcome.DONE in restored) from error
        return restored

    def _restore(self, uuid: str) -> TrashOutcome:
        # Whether its key is free can't be told from the job alone; if it is taken meanwhile, the transaction fails.
        return self._editor.edit([(uuid, self._bring_back)])[0]

    def _bring_back(self, record: Record | None, now: float) -> tuple[TrashOutcome, Fate]:
        if record is None:
            return TrashOutcome.MISSING, Fate.KEPT
        if record.state is not JobState.TRASHED:
            return (
                TrashOutcome.REPEATED if record.has_note((EventKind.RESTORED,)) else TrashOutcome.MISSING
            ), Fate.KEPT
        if record.key is not None and self._is_taken(record.name, record.key):
            return TrashOutcome.TAKEN, Fate.KEPT
        record.attempts, record.reason, record.cancel_asked = 0, None, False
        # Whoever brings it back wants it now: a delay that isn't over must not come back with the next abandon.
        record.run_at = record.run_at if state_at(record, now) is JobState.UNCLAIMED else None
        record.state = JobState.UNCLAIMED
        record.note(EventKind.RESTORED, None, None, None)
        return TrashOutcome.DONE, Fate.WRITTEN

    def _is_taken(self, name: str, key: str) -> bool:
        request = MultiRead()
        request.get(self._line.chroot + self._layout.key(name, key))
        (holder,) = self._line.read(request)
        if holder is None:
            return False
        # A claim that is over may have put the holder into the trash, which frees the key.
        (record,) = self._editor.records([uuid_in(holder)])
        return record is not None and record.is_live

    def purge(self, uuids: Sequence[str]) -> list[TrashOutcome]:
        self._begin()
        return self._editor.edit([(uuid, _purge) for uuid in uuids])

    # -- pauses ----------------------------------------------------------------------------------------------------

    def pause(self, name: str | None) -> None:
        self._change_paused(name, is_paused=True)

    def resume(self, name: str | None) -> None:
        self._change_paused(name, is_paused=False)

    def _change_paused(self, name: str | None, *, is_paused: bool) -> None:
        self._begin()
        for _ in range(_ROUNDS):
            names, version = self._read_paused()
            if (name in names) is is_paused:
                return
            writing = self._engine.begin()
            changed = names | {name} if is_paused else names - {name}
            writing.set(self._layout.paused, pack(sorted(changed, key=str)), version)
            writing.change.tell(EventKind.PAUSED if is_paused else EventKind.RESUMED, name)
            try:
                self._engine.commit(writing)
            except Conflict:
                continue
            return
        raise BoardUnavailable("others pause and resume faster than this client can")

    def paused(self) -> frozenset[str | None]:
        self._begin()
        return self._read_paused()[0]

    # -- sweeping --------------------------------------------------------------------------------------------------

    def tidy(self, limit: int) -> int:
        now = self._look_around()
        with self._listing.lock:
            uuids = self._listing.forgettable(now, limit)
        try:
            count = sum(self._editor.edit([(uuid, _forget) for uuid in uuids]))
        except BoardUnavailable:
            with self._listing.lock:
                self._listing.remember(uuids, now)
            raise
        self._tracker.tidy()
        return count + self._forget_entities(limit - count)

    def _forget_entities(self, limit: int) -> int:
        return 0


def _release(token: int, reason: str, record: Record | None, now: float) -> tuple[Verdict, Fate]:
    if record is None:
        return Verdict.LOST, Fate.KEPT
    if record.state is not JobState.CLAIMED or record.token != token:
        return (Verdict.REPEATED if record.has_note((EventKind.RELEASED,), token) else Verdict.LOST), Fate.KEPT
    record.explain(reason)
    if record.cancel_asked:
        record.note(EventKind.RELEASED, record.owner, token, reason)
        take_off(record, now, None, token)
    else:
        put_back(record, EventKind.RELEASED, now, reason)
    return Verdict.DONE, Fate.WRITTEN


def _purge(record: Record | None, _now: float) -> tuple[TrashOutcome, Fate]:
    if record is None or record.state is not JobState.TRASHED:
        return TrashOutcome.MISSING, Fate.KEPT
    record.note(EventKind.PURGED, None, None, None)
    return TrashOutcome.DONE, Fate.DROPPED


def _forget(record: Record | None, now: float) -> tuple[bool, Fate]:
    """Delete what is remembered no longer; a job that came back meanwhile stays."""
    if record is None or record.state is not JobState.COMPLETE or forgotten_at(record) > now:
        return False, Fate.KEPT
    return True, Fate.DROPPED
