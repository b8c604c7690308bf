"""The operators' primitives, and what participants and books need."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace

from jobboard.backends.etcd.changing import PATIENCE, Change, Changing
from jobboard.backends.etcd.keys import decoded
from jobboard.backends.etcd.layout import Stored
from jobboard.backends.etcd.rows import folded, state_at
from jobboard.backends.etcd.telling import Told, told_of
from jobboard.backends.etcd.txn import KeyValue, Txn, absent, delete, get, modified_at, present, put, scan_prefix
from jobboard.backends.etcd.values import BYTES, NUMBER, TEXT, items_of, pack
from jobboard.backends.rows import EntityRow, TrashOutcome, Verdict
from jobboard.events import EventKind
from jobboard.states import JobState

_DAY = 86_400.0


class Operating(Changing):
    """Break claims, bring back from the trash, pause, tidy."""

    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        def decide(uuid: str, stored: Stored | None, now: float) -> tuple[Verdict, Change | None]:
            if stored is None:
                return Verdict.LOST, None
            grant = stored.row.grant
            if grant is None or stored.row.granted != token:
                is_known = stored.row.has_note((EventKind.RELEASED,), token)
                return Verdict.REPEATED if is_known else Verdict.LOST, None
            row = folded(stored.row)
            row.reason = reason
            if row.cancel_asked:
                row.note(EventKind.RELEASED, grant.who, now, token, reason)
                told = [told_of(row, EventKind.RELEASED, now, grant.who, token, reason)]
                row.take_off(now, None, token)
                return Verdict.DONE, Change(row, [*told, told_of(row, EventKind.CANCELLED, now, None, token)])
            row.put_back(None, now)
            row.note(EventKind.RELEASED, grant.who, now, token, reason)
            return Verdict.DONE, Change(row, [told_of(row, EventKind.RELEASED, now, grant.who, token, reason)])

        return self._alter([uuid], lambda uuid: uuid, decide)[0]

    def restore(self, uuids: Sequence[str]) -> list[TrashOutcome]:
        return self._alter(uuids, lambda uuid: uuid, self._restored)

    def _restored(self, uuid: str, stored: Stored | None, now: float) -> tuple[TrashOutcome, Change | None]:
        if stored is None:
            return TrashOutcome.MISSING, None
        row = stored.row.copy()
        if row.state is not JobState.TRASHED:
            return TrashOutcome.REPEATED if row.has_note((EventKind.RESTORED,)) else TrashOutcome.MISSING, None
        compares = []
        if row.key is not None:
            place = self.keys.key(row.name, row.key)
            holder = self._ask([get(place)])[0].first
            if holder is not None and self._is_live(holder.value):
                return TrashOutcome.TAKEN, None
            compares.append(absent(place) if holder is None else modified_at(place, holder.modified))
        row.attempts, row.reason, row.cancel_asked = 0, None, False
        # Whoever brings it back wants it now: a delay that isn't over must not come back with the next abandon.
        row.run_at = row.run_at if state_at(row, now) is JobState.UNCLAIMED else None
        row.state = JobState.UNCLAIMED
        row.note(EventKind.RESTORED, None, now, None)
        return TrashOutcome.DONE, Change(row, [told_of(row, EventKind.RESTORED, now)], compares=compares)

    def _is_live(self, order: bytes) -> bool:
        return self._ask([get(self.keys.live + order, keys_only=True)])[0].first is not None

    def purge(self, uuids: Sequence[str]) -> list[TrashOutcome]:
        def decide(uuid: str, stored: Stored | None, now: float) -> tuple[TrashOutcome, Change | None]:
            if stored is None or stored.row.state is not JobState.TRASHED:
                return TrashOutcome.MISSING, None
            return TrashOutcome.DONE, Change(None, [told_of(stored.row, EventKind.PURGED, now)])

        return self._alter(uuids, lambda uuid: uuid, decide)

    # -- pauses ----------------------------------------------------------------------------------------------------

    def pause(self, name: str | None) -> None:
        self._check_open()
        key = self.keys.pause(name)
        told = Told(EventKind.PAUSED, None, name, None, None, self.now())
        self._send(Txn([absent(key)], [put(key, b""), *self._telling([told])]))

    def resume(self, name: str | None) -> None:
        self._check_open()
        key = self.keys.pause(name)
        told = Told(EventKind.RESUMED, None, name, None, None, self.now(), due=0.0)
        self._send(Txn([present(key)], [delete(key), *self._telling([told])]))

    def paused(self) -> frozenset[str | None]:
        self._check_open()
        found = self._ask([scan_prefix(self.keys.paused, keys_only=True)])[0]
        return frozenset(
            None if kv.key == self.keys.paused_board else decoded(kv.key.rpartition(b"/")[2]) for kv in found.kvs
        )

    def tidy(self, limit: int) -> int:
        """Forget participants; completed records go with their leases."""
        self._check_open()
        found, now = self._ask([scan_prefix(self.keys.entities)])[0], self.now()
        gone = [kv for kv in found.kvs if _left_of(_entity_of(kv), now) <= -_DAY][:limit]
        for kv in gone:
            self._send(Txn([modified_at(kv.key, kv.modified)], [delete(kv.key)]))
        return len(gone)

    # -- participants and books ------------------------------------------------------------------------------------

    def put_entity(self, entity: EntityRow) -> None:
        self._check_open()
        value = pack([entity.kind, entity.name, entity.body, entity.ttl, self.now()])
        self._send(Txn(then=[put(self.keys.entity(entity.kind, entity.name), value)]))

    def remove_entity(self, kind: str, name: str) -> None:
        self._check_open()
        self._send(Txn(then=[delete(self.keys.entity(kind, name))]))

    def entities(self) -> list[EntityRow]:
        self._check_open()
        found, now = self._ask([scan_prefix(self.keys.entities)])[0], self.now()
        entities = [entity for kv in found.kvs if (entity := _entity_of(kv)) is not None]
        return [replace(entity, expires_in=_left_of(entity, now)) for entity in entities]

    def save_book(self, uuid: str, body: bytes, version: str, after: str | None) -> bool:
        self._check_open()
        key = self.keys.book(uuid)
        value = pack([version, body])
        deadline = time.monotonic() + PATIENCE
        while True:
            stored = self._ask([get(key)])[0].first
            known = None if stored is None else _book_of(stored)[1]
            if known == version:
                return True
            if known != after:
                return False
            revision = 0 if stored is None else stored.modified
            if self._send(Txn([modified_at(key, revision)], [put(key, value)])).succeeded:
                return True
            self._until(deadline, f"the book {uuid} changes all the time")

    def load_book(self, uuid: str) -> tuple[bytes, str] | None:
        self._check_open()
        stored = self._ask([get(self.keys.book(uuid))])[0].first
        return None if stored is None else _book_of(stored)

    def destroy_book(self, uuid: str) -> bool:
        self._check_open()
        key = self.keys.book(uuid)
        return self._send(Txn([present(key)], [delete(key)])).succeeded


def _left_of(entity: EntityRow | None, now: float) -> float:
    """Return the seconds for which a participant counts as there; what can't be read is long gone."""
    return -math.inf if entity is None else entity.last_seen + entity.ttl - now


def _entity_of(kv: KeyValue) -> EntityRow | None:
    try:
        (kind, name, body, ttl, last_seen), _ = items_of(kv.value, (TEXT, TEXT, BYTES, NUMBER, NUMBER))
    except ValueError:
        return None
    return EntityRow(kind, name, body, ttl, last_seen)


def _book_of(kv: KeyValue) -> tuple[bytes, str]:
    """Return a book's body and version; of one that can't be read all of its bytes, for whoever looks at them."""
    try:
        (version, body), _ = items_of(kv.value, (TEXT, BYTES))
    except ValueError:
        return kv.value, ""
    return body, version
