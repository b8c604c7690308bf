"""Participants and books."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError

from jobboard.backends.rows import EntityRow
from jobboard.backends.zookeeper.checks import check_moments, check_types
from jobboard.backends.zookeeper.faults import translated
from jobboard.backends.zookeeper.operating import Operating
from jobboard.backends.zookeeper.requests import Data, MultiRead
from jobboard.backends.zookeeper.wire import pack, unpack
from jobboard.errors import BoardUnavailable

_DAY = 86_400.0
_ROUNDS = 50


class Participants(Operating):
    """An entity's znode stays when it is gone, so that operators see who was there; its client's presence does not."""

    def put_entity(self, entity: EntityRow) -> None:
        self._begin()
        presence = self._sessions.mine()
        data = pack([entity.kind, entity.name, entity.body, entity.ttl, presence])
        path = self._layout.entity(entity.kind, entity.name)
        sent = time.monotonic()
        try:
            stat = self._set_or_create(path, data)
        except KazooException as error:
            raise translated(self._line.where, error) from None
        if stat is not None:
            self._clock.saw(stat.mtime, sent, time.monotonic())

    def _set_or_create(self, path: str, data: bytes) -> Any:
        try:
            return self._line.call("set", path, data)
        except NoNodeError:
            pass
        try:
            return self._line.call("create", path, data, acl=self._acl_now(), include_data=True)[1]
        except NodeExistsError:
            return self._line.call("set", path, data)

    def remove_entity(self, kind: str, name: str) -> None:
        self._begin()
        self._delete(self._layout.entity(kind, name))

    def entities(self) -> list[EntityRow]:
        self._begin()
        return [entity for _, entity in self._read_entities()]

    def _read_entities(self) -> list[tuple[str, EntityRow]]:
        """Return who is there and who was, with the names of their znodes."""
        request = MultiRead()
        request.children(self._line.chroot + self._layout.entities)
        (names,) = self._line.read(request)
        if names is None:
            raise BoardUnavailable(f"{self._layout.entities} is missing; was the board deleted?")
        names = sorted(names)
        request = MultiRead()
        request.get(self._line.chroot + self._layout.sessions)
        for name in names:
            request.get(f"{self._line.chroot}{self._layout.entities}/{name}")
        sessions, *found = self._line.read(request, is_fresh=False)
        if sessions is not None and not self._sessions.are_known_at(sessions.stat):
            self._sessions.look()
        now = self._clock.now()
        return [
            (name, entity)
            for name, data in zip(names, found, strict=True)
            if data is not None and (entity := self._entity(data, now)) is not None
        ]

    def _entity(self, data: Data, now: float) -> EntityRow | None:
        try:
            parts = unpack(data.data)
            check_types(parts, [(str,), (str,), (bytes,), (int, float), (str,)])
            check_moments(parts[3])
        except (ValueError, TypeError):
            return None
        kind, name, body, ttl, presence = parts
        seen = data.stat.mtime / 1000
        entity = EntityRow(kind, name, body, ttl, seen, seen + ttl - now)
        if self._sessions.is_present(presence):
            return entity
        # Its session has ended: it is gone, whatever it said of when it would come back.
        return replace(entity, expires_in=min(entity.expires_in, seen - now, -0.001))

    def _forget_entities(self, limit: int) -> int:
        gone = [name for name, entity in self._read_entities() if entity.expires_in <= -_DAY][: max(0, limit)]
        for name in gone:
            self._delete(f"{self._layout.entities}/{name}")
        return len(gone)

    def _delete(self, path: str, version: int = -1) -> bool:
        """Delete a znode; False if there was none."""
        try:
            self._line.call("delete", path, version)
        except NoNodeError:
            return False
        except KazooException as error:
            raise translated(self._line.where, error) from None
        return True

    # -- books -----------------------------------------------------------------------------------------------------

    def save_book(self, uuid: str, body: bytes, version: str, after: str | None) -> bool:
        self._begin()
        path = self._layout.book(uuid)
        data = pack([version, body])
        for _ in range(_ROUNDS):
            found = self._read_book(uuid)
            stored = None if found is None else _stored_book(uuid, found)[0]
            if stored == version:
                return True
            if stored != after:
                return False
            try:
                if found is None:
                    self._line.call("create", path, data, acl=self._acl_now())
                else:
                    self._line.call("set", path, data, found.stat.version)
                return True
            except (NodeExistsError, NoNodeError, BadVersionError):
                continue
            except KazooException as error:
                raise translated(self._line.where, error) from None
        raise BoardUnavailable("others save this book faster than this client can")

    def _read_book(self, uuid: str) -> Data | None:
        request = MultiRead()
        request.get(self._line.chroot + self._layout.book(uuid))
        found: Data | None = self._line.read(request)[0]
        return found

    def load_book(self, uuid: str) -> tuple[bytes, str] | None:
        self._begin()
        found = self._read_book(uuid)
        if found is None:
            return None
        version, body = _stored_book(uuid, found)
        return body, version

    def destroy_book(self, uuid: str) -> bool:
        self._begin()
        return self._delete(self._layout.book(uuid))


def _stored_book(uuid: str, found: Data) -> tuple[str, bytes]:
    """Return the version and the body of a book."""
    try:
        parts = unpack(found.data)
        check_types(parts, [(str,), (bytes,)])
        return parts[0], parts[1]
    except (ValueError, TypeError):
        raise BoardUnavailable(f"logbook {uuid} can't be decoded; destroy_book() removes it") from None
