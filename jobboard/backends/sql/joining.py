"""The primitives inside a transaction of the user's."""

from __future__ import annotations

from typing import Any

from jobboard.backends.base import Backend
from jobboard.backends.sql.claiming import Claiming
from jobboard.backends.sql.joined import Joined
from jobboard.backends.sql.operating import Operating
from jobboard.backends.sql.reading import Reading
from jobboard.backends.sql.scheduling import Scheduling


class JoinedBackend(Scheduling, Claiming, Reading, Operating, Backend):
    """What a backend's ``within`` returns: the same board, and nothing to open, close, or take again."""

    def __init__(self, backend: Backend, database: Joined) -> None:
        super().__init__(backend.board, backend.address)
        self.scheme = backend.scheme  # type: ignore[misc]
        self.capabilities = backend.capabilities  # type: ignore[misc]
        self._backend = backend
        self._database = database

    @property
    def database(self) -> Joined:  # type: ignore[override]
        return self._database

    def open(self, timeout: float) -> None:
        raise NotImplementedError("it is open for as long as the transaction")

    def close(self) -> None:
        """The connection is the user's."""

    @property
    def connected(self) -> bool:
        return self._backend.connected

    def now(self) -> float:
        with self._database.read() as transaction:
            return transaction.now

    def within(self, connection: Any) -> Backend:
        return self._backend.within(connection)
