"""The operators' primitives, and what participants and books need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jobboard.backends import lifecycle
from jobboard.backends.lifecycle import Transition
from jobboard.backends.memory.audit import audit
from jobboard.backends.memory.client import Client
from jobboard.backends.memory.row import Row
from jobboard.backends.rows import AuditFinding, EntityRow, TrashOutcome, Verdict
from jobboard.events import EventKind, JobEvent
from jobboard.validation import moment

_DAY = 86_400.0


class Operating(Client):
    """Break claims, bring back from the trash, pause, tidy, check."""

    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        with self._lock:
            now = self._begin()
            return self._shelf.change(
                uuid, lambda row, token, now: lifecycle.release(row, token, reason, now), token, now
            )

    def restore(self, uuids: Sequence[str]) -> list[TrashOutcome]:
        with self._lock:
            now = self._begin()
            return [self._shelf.change(uuid, self._restored, uuid, now) for uuid in uuids]

    def _restored(self, row: Row | None, _uuid: str, now: float) -> Transition[TrashOutcome]:
        return lifecycle.restore(row, now, lambda: row is not None and (row.name, row.key) in self._shelf.keys)

    def purge(self, uuids: Sequence[str]) -> list[TrashOutcome]:
        with self._lock:
            now = self._begin()
            return [self._purge(uuid, now) for uuid in uuids]

    def _purge(self, uuid: str, now: float) -> TrashOutcome:
        row = self._shelf.rows.get(uuid)
        change = lifecycle.purge(row, now)
        if row is not None and change.told:
            self._shelf.drop(row)
            self._shelf.tell_of(row, change.told)
        return change.answer

    def pause(self, name: str | None) -> None:
        with self._lock:
            now = self._begin()
            if name not in self._shelf.paused:
                self._shelf.paused.add(name)
                self._shelf.tell(JobEvent(EventKind.PAUSED, None, name, None, None, moment(now)))

    def resume(self, name: str | None) -> None:
        with self._lock:
            now = self._begin()
            if name in self._shelf.paused:
                self._shelf.paused.discard(name)
                self._shelf.tell(JobEvent(EventKind.RESUMED, None, name, None, None, moment(now)))
                self._shelf.stir(name, 0.0)

    def paused(self) -> frozenset[str | None]:
        with self._lock:
            self._begin()
            return frozenset(self._shelf.paused)

    def tidy(self, limit: int) -> int:
        with self._lock:
            now = self._begin()
            count = self._shelf.forget(limit, now)
            entities = self._shelf.entities
            gone = [key for key, entity in entities.items() if _left(entity, now) <= -_DAY][: limit - count]
            for key in gone:
                del entities[key]
            return count + len(gone)

    def audit(self, repair: bool) -> list[AuditFinding]:
        with self._lock:
            now = self._begin()
            return audit(self._shelf, repair, now)

    # -- participants and books ------------------------------------------------------------------------------------

    def put_entity(self, entity: EntityRow) -> None:
        with self._lock:
            now = self._begin()
            self._shelf.entities[entity.kind, entity.name] = replace(entity, last_seen=now)

    def remove_entity(self, kind: str, name: str) -> None:
        with self._lock:
            self._begin()
            self._shelf.entities.pop((kind, name), None)

    def entities(self) -> list[EntityRow]:
        with self._lock:
            now = self._begin()
            return [replace(entity, expires_in=_left(entity, now)) for entity in self._shelf.entities.values()]

    def save_book(self, uuid: str, body: bytes, version: str, after: str | None) -> bool:
        with self._lock:
            self._begin()
            stored = self._shelf.books.get(uuid, (b"", None))[1]
            if stored == version:
                return True
            if stored != after:
                return False
            self._shelf.books[uuid] = (body, version)
            return True

    def load_book(self, uuid: str) -> tuple[bytes, str] | None:
        with self._lock:
            self._begin()
            return self._shelf.books.get(uuid)

    def destroy_book(self, uuid: str) -> bool:
        with self._lock:
            self._begin()
            return self._shelf.books.pop(uuid, None) is not None


def _left(entity: EntityRow, now: float) -> float:
    return entity.last_seen + entity.ttl - now
