"""What operators and housekeeping do to a whole board, done to each shard."""

from __future__ import annotations

from jobboard.backends import roles
from jobboard.backends.findings import AuditFinding, Holder
from jobboard.backends.rows import Pause
from jobboard.backends.shards.fleet import Fleet
from jobboard.backends.shards.limits import Limits
from jobboard.backends.sweep import tidy_limits


class Maintenance(roles.Maintenance):
    """A pause holds on all shards once the call has returned."""

    def __init__(self, fleet: Fleet, limits: Limits) -> None:
        self._fleet, self._limits = fleet, limits

    def pause(self, name: str | None, by: str | None = None, reason: str | None = None) -> None:
        self._fleet.everywhere(lambda shard: shard.maintenance.pause(name, by, reason), changes=True)

    def resume(self, name: str | None) -> None:
        self._fleet.everywhere(lambda shard: shard.maintenance.resume(name), changes=True)

    def paused(self) -> frozenset[str | None]:
        return frozenset().union(*self._fleet.everywhere(lambda shard: shard.maintenance.paused()).values())

    def pauses(self) -> list[Pause]:
        found: dict[str | None, Pause] = {}
        for pauses in self._fleet.everywhere(lambda shard: shard.maintenance.pauses()).values():
            for pause in pauses:
                found.setdefault(pause.name, pause)
        return list(found.values())

    def tidy(self, limit: int) -> int:
        most = max(1, limit // len(self._fleet.present))
        try:
            counts = self._fleet.everywhere(lambda shard: shard.maintenance.tidy(most), changes=True).values()
        finally:
            # What is over goes from each shard that answers; the limits need all of them.
            self._tidy_limits()
        # There is more to tidy if one shard has more, whatever the others had.
        return limit if max(counts) >= most else sum(counts)

    def _tidy_limits(self) -> None:
        tidy_limits(self._limits, self._limits.all(), self._fleet.now())
        self._limits.tell_names()

    def audit(self, repair: bool) -> list[AuditFinding]:
        parts = self._fleet.everywhere(lambda shard: shard.maintenance.audit(repair), changes=repair)
        return [*self._limits.audit(repair), *(finding for part in parts.values() for finding in part)]

    def holders(self) -> list[Holder]:
        parts = self._fleet.everywhere(lambda shard: shard.maintenance.holders())
        return [holder for part in parts.values() for holder in part]

    def server_version(self) -> str:
        versions = dict.fromkeys(self._fleet.everywhere(lambda shard: shard.maintenance.server_version()).values())
        return f"{len(self._fleet.present)} shards on {', '.join(versions)}"
