"""Participants."""

from __future__ import annotations

from dataclasses import replace

from jobboard.backends.memory.client import MemoryClient
from jobboard.backends.roles import EntityStore
from jobboard.backends.rows import EntityRow


class Entities(EntityStore):
    """A participant is listed until it has been gone for a day."""

    def __init__(self, client: MemoryClient) -> None:
        self._store, self._lock, self._begin = client.store, client.lock, client.begin

    def put(self, entity: EntityRow, orders: str | None = None) -> bool:
        with self._lock:
            now = self._begin()
            self._store.entities[entity.kind, entity.name] = replace(entity, last_seen=now)
            return orders in self._store.books

    def remove(self, kind: str, name: str) -> None:
        with self._lock:
            self._begin()
            self._store.entities.pop((kind, name), None)

    def all(self) -> list[EntityRow]:
        with self._lock:
            now = self._begin()
            return [replace(entity, expires_in=time_left(entity, now)) for entity in self._store.entities.values()]


def time_left(entity: EntityRow, now: float) -> float:
    """Return for how many more seconds a participant counts as present; negative once it is gone."""
    return entity.last_seen + entity.ttl - now
