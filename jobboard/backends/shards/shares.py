"""Limits as single shards keep them: of a name, a shard has its share of the number."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jobboard.backends.lane_rows import LimitRow
from jobboard.backends.rows import Verdict
from jobboard.backends.shards.fleet import Fleet
from jobboard.limit import Limit

#: What a shard tells of a limit that nobody has changed: no listener of the board is told that.
SLOT_MOVED = "a slot of this name was moved"


@dataclass(frozen=True, slots=True)
class Share(Limit):
    """A share of a limit; ``told`` is what its shard tells when it gets it."""

    told: str = ""

    def __str__(self) -> str:
        return self.told


def share_of(row: LimitRow, version: str, running: int | None, told: str = SLOT_MOVED) -> LimitRow:
    """Return what a shard keeps of the limit of a name."""
    limit = row.limit
    share = Share(name=limit.name, running=running, by=limit.by, reason=limit.reason, at=limit.at, told=told)
    return replace(row, limit=share, version=version)


class Shares:
    """Reads and writes them."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def all(self, number: int) -> list[LimitRow]:
        return self._fleet.ask_needed(number, lambda shard: shard.limits.all())

    def get(self, number: int, key: tuple[str, str]) -> LimitRow | None:
        """Return what a shard has of a limit."""
        return next((row for row in self.all(number) if row.key == key), None)

    def version(self, number: int, key: tuple[str, str]) -> str | None:
        found = self.get(number, key)
        return None if found is None else found.version

    def put(self, number: int, row: LimitRow, after: str | None) -> bool:
        """Return whether it is written: only if the stored version is ``after``."""
        return self._fleet.ask(number, lambda shard: shard.limits.put(row, after)) is not Verdict.LOST
