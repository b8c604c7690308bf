"""Participants: each is on one shard."""

from __future__ import annotations

from jobboard.backends.roles import EntityStore
from jobboard.backends.rows import EntityRow
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.placement import of_uuid, rendezvous


class Entities(EntityStore):
    """Those who ask for orders are where the logbook with these is, so that one request tells both."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def put(self, entity: EntityRow, orders: str | None = None) -> bool:
        count = self._fleet.count
        name = f"entity\0{entity.kind}\0{entity.name}"
        number = rendezvous(name, count) if orders is None else of_uuid(orders, count)
        return self._fleet.shards[number].entities.put(entity, orders)

    def remove(self, kind: str, name: str) -> None:
        self._fleet.everywhere(lambda shard: shard.entities.remove(kind, name), changes=True)

    def all(self) -> list[EntityRow]:
        latest: dict[tuple[str, str], EntityRow] = {}
        for rows in self._fleet.everywhere(lambda shard: shard.entities.all()):
            for row in rows:
                known = latest.get((row.kind, row.name))
                if known is None or known.expires_in < row.expires_in:
                    latest[row.kind, row.name] = row
        return list(latest.values())
