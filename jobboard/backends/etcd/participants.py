"""Participants."""

from __future__ import annotations

import math
from dataclasses import replace

from jobboard.backends.base import ENTITY_TTL
from jobboard.backends.etcd.connection import Connection
from jobboard.backends.etcd.txn import KeyValue, Txn, delete, put, scan_prefix
from jobboard.backends.kv.codec import BYTES, NUMBER, TEXT, items_of, pack
from jobboard.backends.roles import EntityStore
from jobboard.backends.rows import EntityRow


class Participants(EntityStore):
    """One key for each participant."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._keys = connection.keys

    def put(self, entity: EntityRow, orders: str | None = None) -> bool:
        value = pack([entity.kind, entity.name, entity.body, entity.ttl, self._connection.now()])
        self._connection.send(Txn(then=[put(self._keys.entity(entity.kind, entity.name), value)]))
        return True

    def remove(self, kind: str, name: str) -> None:
        self._connection.send(Txn(then=[delete(self._keys.entity(kind, name))]))

    def all(self) -> list[EntityRow]:
        entities = [entity for kv in self._stored() if (entity := _entity_of(kv)) is not None]
        now = self._connection.now()
        return [replace(entity, expires_in=_seconds_left(entity, now)) for entity in entities]

    def tidy(self, limit: int) -> int:
        """Forget participants whose time to be listed is over; completed records go with their leases."""
        stored, now = self._stored(), self._connection.now()
        gone = [kv for kv in stored if _seconds_left(_entity_of(kv), now) <= -ENTITY_TTL][:limit]
        for kv in gone:
            self._connection.delete(kv)
        return len(gone)

    def _stored(self) -> list[KeyValue]:
        return self._connection.read([scan_prefix(self._keys.entities)])[0].kvs


def _seconds_left(entity: EntityRow | None, now: float) -> float:
    """Return the seconds for which a participant counts as there; what can't be read is long gone."""
    return -math.inf if entity is None else entity.last_seen + entity.ttl - now


def _entity_of(kv: KeyValue) -> EntityRow | None:
    try:
        (kind, name, body, ttl, last_seen), _ = items_of(kv.value, (TEXT, TEXT, BYTES, NUMBER, NUMBER))
    except ValueError:
        return None
    return EntityRow(kind, name, body, ttl, last_seen)
