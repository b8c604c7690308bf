"""Participants and logbooks."""

from __future__ import annotations

from dataclasses import replace

from jobboard.backends.memory.client import MemoryClient
from jobboard.backends.roles import BookStore, EntityStore
from jobboard.backends.rows import EntityRow


class Entities(EntityStore):
    """A participant is listed until it has been gone for a day."""

    def __init__(self, client: MemoryClient) -> None:
        self._store, self._lock, self._begin = client.store, client.lock, client.begin

    def put(self, entity: EntityRow) -> None:
        with self._lock:
            now = self._begin()
            self._store.entities[entity.kind, entity.name] = replace(entity, last_seen=now)

    def remove(self, kind: str, name: str) -> None:
        with self._lock:
            self._begin()
            self._store.entities.pop((kind, name), None)

    def all(self) -> list[EntityRow]:
        with self._lock:
            now = self._begin()
            return [replace(entity, expires_in=time_left(entity, now)) for entity in self._store.entities.values()]


class Books(BookStore):
    """A book is replaced as a whole."""

    def __init__(self, client: MemoryClient) -> None:
        self._store, self._lock, self._begin = client.store, client.lock, client.begin

    def save(self, uuid: str, body: bytes, version: str, after: str | None) -> bool:
        with self._lock:
            self._begin()
            stored = self._store.books.get(uuid, (b"", None))[1]
            if stored == version:
                return True
            if stored != after:
                return False
            self._store.books[uuid] = (body, version)
            return True

    def load(self, uuid: str) -> tuple[bytes, str] | None:
        with self._lock:
            self._begin()
            return self._store.books.get(uuid)

    def destroy(self, uuid: str) -> bool:
        with self._lock:
            self._begin()
            return self._store.books.pop(uuid, None) is not None


def time_left(entity: EntityRow, now: float) -> float:
    """Return for how many more seconds a participant counts as present; negative once it is gone."""
    return entity.last_seen + entity.ttl - now
