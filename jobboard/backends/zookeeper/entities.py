"""Entities."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from jobboard.backends.base import ENTITY_TTL
from jobboard.backends.kv.clock import ServerClock
from jobboard.backends.kv.codec import BYTES, NUMBER, TEXT, items_of, pack
from jobboard.backends.roles import EntityStore
from jobboard.backends.rows import EntityRow
from jobboard.backends.zookeeper.codec import check_moments
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.errors import from_kazoo, missing
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.requests import Data
from jobboard.backends.zookeeper.sessions import Sessions


class Entities(EntityStore):
    """An entity's znode stays when the entity is gone, for operators to see; it names its client's presence."""

    def __init__(self, connection: Connection, layout: Layout, clock: ServerClock, sessions: Sessions) -> None:
        self._connection, self._layout, self._clock, self._sessions = connection, layout, clock, sessions

    def put(self, entity: EntityRow, orders: str | None = None) -> bool:
        data = pack([entity.kind, entity.name, entity.body, entity.ttl, self._sessions.mine()])
        sent_at = time.monotonic()
        try:
            stat = self._set_or_create(self._layout.entity(entity.kind, entity.name), data)
        except KazooException as error:
            raise from_kazoo(self._connection.where, error) from None
        if stat is not None:
            self._clock.learn(stat.mtime / 1000, 0.001, sent_at, time.monotonic())
        return True

    def _set_or_create(self, path: str, data: bytes) -> Any:
        try:
            return self._connection.call("set", path, data)
        except NoNodeError:
            pass
        try:
            return self._connection.call("create", path, data, acl=self._connection.acl, include_data=True)[1]
        except NodeExistsError:
            return self._connection.call("set", path, data)

    def remove(self, kind: str, name: str) -> None:
        self._connection.delete(self._layout.entity(kind, name))

    def all(self) -> list[EntityRow]:
        return [entity for _, entity in self._read()]

    def _read(self) -> list[tuple[str, EntityRow]]:
        """Return the entities that exist and existed, with the paths of their znodes."""
        paths = sorted(self._connection.children([self._layout.entities]))
        folders = [self._layout.sessions, self._layout.entities]
        sessions, folder, *found = self._connection.read_many([*folders, *paths], is_fresh=False)
        if sessions is None or folder is None:
            raise missing(self._layout.entities)
        if not self._sessions.are_known_at(sessions.stat):
            self._sessions.refresh()
        now = self._clock.now()
        return [
            (path, entity)
            for path, data in zip(paths, found, strict=True)
            if data is not None and (entity := self._decode(data, now)) is not None
        ]

    def _decode(self, data: Data, now: float) -> EntityRow | None:
        try:
            (kind, name, body, ttl, presence), _ = items_of(data.data, [TEXT, TEXT, BYTES, NUMBER, TEXT])
            check_moments(ttl)
        except ValueError:
            return None
        seen = data.stat.mtime / 1000
        entity = EntityRow(kind, name, body, ttl, seen, seen + ttl - now)
        if self._sessions.is_present(presence):
            return entity
        # Its session has ended: it is gone, whatever time to live it announced.
        return replace(entity, expires_in=min(entity.expires_in, seen - now, -0.001))

    def forget(self, limit: int) -> int:
        """Delete up to ``limit`` entities whose time to be listed is over; returns how many it were."""
        gone = [path for path, entity in self._read() if entity.expires_in <= -ENTITY_TTL][: max(0, limit)]
        for path in gone:
            self._connection.delete(path)
        return len(gone)
