"""Participants on Redis."""

from __future__ import annotations

from jobboard.backends.redis.client import RedisClient
from jobboard.backends.redis.codec import text_of
from jobboard.backends.redis.moments import micros
from jobboard.backends.roles import EntityStore
from jobboard.backends.rows import EntityRow


class Entities(EntityStore):
    """The participants of one board."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    def put(self, entity: EntityRow, orders: str | None = None) -> bool:
        who = f"{entity.kind}\n{entity.name}"
        return bool(self._client.change("put_entity", who, str(micros(entity.ttl)), entity.body, orders or "")[1])

    def remove(self, kind: str, name: str) -> None:
        self._client.change("remove_entity", f"{kind}\n{name}")

    def all(self) -> list[EntityRow]:
        _, now, found = self._client.read("entities")
        entities = []
        for who, body, *times in zip(*[iter(found)] * 4, strict=True):
            kind, _, name = text_of(who).partition("\n")
            seen, ttl = map(int, times)
            left = (seen + ttl - now) / 1e6
            entities.append(EntityRow(kind, name, body, ttl / 1e6, last_seen=seen / 1e6, expires_in=left))
        return entities
