"""The operators' primitives on a shelf, its participants and its books."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import replace

from jobboard.backend import Backend
from jobboard.backends.memory.shelf import Row, Shelf, clock
from jobboard.entry import LIVE, EntityEntry, Finding, JobState, Restored, Verdict
from jobboard.events import EventKind

_FORGET_ENTITIES_AFTER = 86_400.0


class Operating(Backend):
    """Release, trash and restore, pause, audit, participants, books."""

    shelf: Shelf

    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        with self.shelf.lock:
            now = clock()
            self.shelf.settle(now)
            row = self.shelf.rows.get(uuid)
            if row is None:
                return Verdict.LOST
            if row.entry.state is JobState.CLAIMED and row.entry.token == token:
                self.shelf.take_back(row, now, EventKind.RELEASED, reason)
                return Verdict.DONE
            return Verdict.REPEATED if was_done(row, {EventKind.RELEASED}, token) else Verdict.LOST

    def restore(self, uuids: Sequence[str]) -> list[Restored]:
        with self.shelf.lock:
            return [self._restore(uuid, clock()) for uuid in uuids]

    def _restore(self, uuid: str, now: float) -> Restored:
        row = self.shelf.rows.get(uuid)
        if row is None:
            return Restored.MISSING
        entry = row.entry
        if entry.state is not JobState.TRASHED:
            return Restored.REPEATED if row.lines[-1][0] is EventKind.RESTORED else Restored.MISSING
        if entry.key is not None:
            if (entry.name, entry.key) in self.shelf.keys:
                return Restored.TAKEN
            self.shelf.keys[entry.name, entry.key] = uuid
        entry.attempts, entry.reason = 0, None
        self.shelf.tell(row, EventKind.RESTORED, now)
        self.shelf.put_back(row, now, None)
        return Restored.DONE

    def purge(self, uuids: Sequence[str]) -> list[Restored]:
        with self.shelf.lock:
            return [self._purge(uuid, clock()) for uuid in uuids]

    def _purge(self, uuid: str, now: float) -> Restored:
        row = self.shelf.rows.get(uuid)
        if row is None or row.entry.state is not JobState.TRASHED:
            return Restored.MISSING
        self.shelf.tell(row, EventKind.PURGED, now)
        self.shelf.remove(row)
        return Restored.DONE

    def pause(self, name: str | None) -> None:
        with self.shelf.lock:
            if name not in self.shelf.paused:
                self.shelf.paused.add(name)
                self.shelf.broadcast(EventKind.PAUSED, None, name, None, None, clock())

    def resume(self, name: str | None) -> None:
        with self.shelf.lock:
            if name in self.shelf.paused:
                self.shelf.paused.remove(name)
                self.shelf.broadcast(EventKind.RESUMED, None, name, None, None, clock())
                self.shelf.wake()

    def paused(self) -> frozenset[str | None]:
        with self.shelf.lock:
            return frozenset(self.shelf.paused)

    def tidy(self, limit: int) -> int:
        shelf, deleted = self.shelf, 0
        with shelf.lock:
            now = clock()
            while deleted < limit and shelf.over and shelf.over[0][0] <= now:
                _, uuid = heapq.heappop(shelf.over)
                row = shelf.rows.get(uuid)
                if row is not None and row.retain_until is not None:
                    shelf.remove(row)
                    deleted += 1
            for identity, entity in list(shelf.entities.items()):
                if deleted < limit and entity.last_seen + entity.ttl + _FORGET_ENTITIES_AFTER <= now:
                    del shelf.entities[identity]
                    deleted += 1
        return deleted

    def audit(self, repair: bool) -> list[Finding]:
        with self.shelf.lock:
            self.shelf.settle(clock())
            return [*self._audit_rows(repair), *self._audit_keys(repair)]

    def _audit_rows(self, repair: bool) -> list[Finding]:
        found = []
        for uuid, row in self.shelf.rows.items():
            problem = _problem_of(row)
            if problem is not None:
                if repair:
                    self.shelf.enter(row, JobState.UNCLAIMED)
                found.append(Finding(uuid, problem, repair))
        return found

    def _audit_keys(self, repair: bool) -> list[Finding]:
        found = []
        for (name, key), uuid in list(self.shelf.keys.items()):
            row = self.shelf.rows.get(uuid)
            if row is None or row.entry.state not in LIVE:
                if repair:
                    del self.shelf.keys[name, key]
                found.append(Finding(uuid, f"the key {key!r} of {name!r} is held by a job that is not live", repair))
        return found

    def put_entity(self, entity: EntityEntry) -> None:
        with self.shelf.lock:
            self.shelf.entities[entity.kind, entity.name] = replace(entity, last_seen=clock())

    def remove_entity(self, kind: str, name: str) -> None:
        with self.shelf.lock:
            self.shelf.entities.pop((kind, name), None)

    def entities(self) -> list[EntityEntry]:
        with self.shelf.lock:
            now = clock()
            return [
                replace(entity, expires_in=entity.last_seen + entity.ttl - now)
                for entity in self.shelf.entities.values()
            ]

    def save_book(self, uuid: str, body: bytes, version: str, after: str | None) -> bool:
        with self.shelf.lock:
            stored = self.shelf.books.get(uuid)
            present = stored[1] if stored else None
            if present != version and present != after:
                return False
            self.shelf.books[uuid] = (body, version)
            return True

    def load_book(self, uuid: str) -> tuple[bytes, str] | None:
        with self.shelf.lock:
            return self.shelf.books.get(uuid)

    def destroy_book(self, uuid: str) -> bool:
        with self.shelf.lock:
            return self.shelf.books.pop(uuid, None) is not None


def was_done(row: Row, kinds: Collection[EventKind], token: int) -> bool:
    """Tell from the history whether one of these was done under this token before."""
    return any(line[0] in kinds and line[3] == token for line in row.lines)


def _problem_of(row: Row) -> str | None:
    entry = row.entry
    if entry.state is JobState.CLAIMED and (entry.owner is None or entry.claim_id is None):
        return "it is claimed, but by nobody"
    if entry.state is JobState.DELAYED and row.due is None:
        return "it is delayed, but never due"
    if entry.state in LIVE and row.retain_until is not None:
        return "it is on the board, but remembered as gone"
    return None
