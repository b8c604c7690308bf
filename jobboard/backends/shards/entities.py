"""Participants: each is on one shard. Those who share the work on a board learn from them which shards are theirs."""

from __future__ import annotations

import math
import time

from jobboard.backends.roles import EntityStore
from jobboard.backends.rows import EntityRow
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.homes import Homes
from jobboard.errors import BoardUnavailable

#: Seconds between two looks at who else is there; each is one request.
_LOOK_INTERVAL = 30.0

#: The same for each of those who are there, if that is more: an answer is as long as they are many.
_SECONDS_PER_OWNER = 0.3


class Entities(EntityStore):
    """Those who ask for orders are where the logbook with these is, so that one request tells both."""

    def __init__(self, fleet: Fleet, homes: Homes) -> None:
        self._fleet, self._homes = fleet, homes
        self._look_again_at = -math.inf

    def put(self, entity: EntityRow, orders: str | None = None) -> bool:
        if orders is None:
            number = self._fleet.map.now.place(f"entity\0{entity.kind}\0{entity.name}")
            return self._fleet.ask(number, lambda shard: shard.entities.put(entity))
        number = self._fleet.map.now.place(orders)
        has_orders = self._fleet.ask(number, lambda shard: shard.entities.put(entity, orders))
        self._look_at_others(entity, number)
        return has_orders

    def _look_at_others(self, entity: EntityRow, number: int) -> None:
        """Learn now and then with whom a conductor shares the work; they are all on this shard."""
        now = time.monotonic()
        if len(self._fleet.served) == 1 or (self._homes.are_known_to(entity.name) and now < self._look_again_at):
            return
        self._look_again_at = now + _LOOK_INTERVAL
        try:
            rows = self._fleet.ask(number, lambda shard: shard.entities.all())
        except BoardUnavailable:
            # It is a hint only.
            return
        everybody = [row.name for row in rows if row.kind == entity.kind and row.expires_in > 0]
        self._homes.learn(entity.name, everybody)
        self._look_again_at = now + max(_LOOK_INTERVAL, _SECONDS_PER_OWNER * len(everybody))

    def remove(self, kind: str, name: str) -> None:
        self._homes.forget(name)
        self._fleet.everywhere(lambda shard: shard.entities.remove(kind, name), changes=True)

    def all(self) -> list[EntityRow]:
        latest: dict[tuple[str, str], EntityRow] = {}
        for rows in self._fleet.everywhere(lambda shard: shard.entities.all()).values():
            for row in rows:
                known = latest.get((row.kind, row.name))
                if known is None or known.expires_in < row.expires_in:
                    latest[row.kind, row.name] = row
        return list(latest.values())
