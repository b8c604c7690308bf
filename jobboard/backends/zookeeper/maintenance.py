"""What operators and housekeeping do to a whole board."""

from __future__ import annotations

from jobboard.backends import roles
from jobboard.backends.findings import AuditFinding, Holder
from jobboard.backends.rows import Pause
from jobboard.backends.zookeeper.audit import Auditor
from jobboard.backends.zookeeper.books import Books
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.limits import Limits
from jobboard.backends.zookeeper.pauses import Pauses
from jobboard.backends.zookeeper.upkeep import Upkeep


class Maintenance(roles.Maintenance):
    """Hands each request to its collaborator."""

    def __init__(
        self,
        connection: Connection,
        upkeep: Upkeep,
        auditor: Auditor,
        books: Books,
        pauses: Pauses,
        limits: Limits,
    ) -> None:
        self._connection, self._upkeep, self._auditor, self._books = connection, upkeep, auditor, books
        self._pauses, self._limits = pauses, limits

    def tidy(self, limit: int) -> int:
        return self._upkeep.tidy(limit) + self._books.forget() + self._limits.tidy()

    def holders(self) -> list[Holder]:
        return []

    def server_version(self) -> str:
        return f"ZooKeeper {self._connection.server_version()}".rstrip()

    def audit(self, repair: bool) -> list[AuditFinding]:
        return self._auditor.audit(repair) + self._books.audit(repair)

    def pause(self, name: str | None, by: str | None = None, reason: str | None = None) -> None:
        self._pauses.pause(name, by, reason)

    def resume(self, name: str | None) -> None:
        self._pauses.resume(name)

    def paused(self) -> frozenset[str | None]:
        return self._pauses.paused()

    def pauses(self) -> list[Pause]:
        return self._pauses.pauses()
