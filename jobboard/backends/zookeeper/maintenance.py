"""What operators and housekeeping do to a whole board."""

from __future__ import annotations

from jobboard.backends import roles
from jobboard.backends.rows import AuditFinding, Holder, Pause
from jobboard.backends.zookeeper.audit import Auditor
from jobboard.backends.zookeeper.books import Books
from jobboard.backends.zookeeper.connection import Connection
from jobboard.backends.zookeeper.pauses import Pauses
from jobboard.backends.zookeeper.upkeep import Upkeep


class Maintenance(roles.Maintenance):
    """Pauses, upkeep and the audit."""

    def __init__(self, connection: Connection, pauses: Pauses, upkeep: Upkeep, auditor: Auditor, books: Books) -> None:
        self._connection, self._pauses, self._upkeep, self._auditor = connection, pauses, upkeep, auditor
        self._books = books

    def pause(self, name: str | None, by: str | None = None, reason: str | None = None) -> None:
        self._pauses.pause(name, by, reason)

    def resume(self, name: str | None) -> None:
        self._pauses.resume(name)

    def paused(self) -> frozenset[str | None]:
        return self._pauses.read()[0]

    def pauses(self) -> list[Pause]:
        return self._pauses.all()

    def tidy(self, limit: int) -> int:
        return self._upkeep.tidy(limit) + self._books.forget()

    def holders(self) -> list[Holder]:
        return []

    def server_version(self) -> str:
        return f"ZooKeeper {self._connection.server_version()}".rstrip()

    def audit(self, repair: bool) -> list[AuditFinding]:
        return self._auditor.audit(repair) + self._books.audit(repair)
