"""How a board on SQL is opened and closed, whatever kind of database it is."""

from __future__ import annotations

import abc
from typing import Any, Generic, TypeVar

from jobboard.backends.address import Address
from jobboard.backends.base import Backend
from jobboard.backends.sql.claiming import Claiming
from jobboard.backends.sql.database import Database
from jobboard.backends.sql.operating import Operating
from jobboard.backends.sql.reading import Reading
from jobboard.backends.sql.scheduling import Scheduling
from jobboard.backends.sql.watching import Watcher
from jobboard.errors import BoardUnavailable

D = TypeVar("D", bound=Database)


class Connecting(Scheduling, Claiming, Reading, Operating, Backend, Generic[D]):
    """All primitives, on a database that is there from ``open`` to ``close``."""

    def __init__(self, board: str, address: Address, **options: Any) -> None:
        super().__init__(board, address, **options)
        self._database: D | None = None
        self._watcher: Watcher | None = None

    @abc.abstractmethod
    def _connect(self, timeout: float) -> D:
        """Return the database, open."""

    @property
    def database(self) -> D:  # type: ignore[override]
        if self._database is None:
            raise BoardUnavailable(f"board {self.board!r} is closed; call connect() first")
        return self._database

    @property
    def watcher(self) -> Watcher:  # type: ignore[override]
        if self._watcher is None:
            raise BoardUnavailable(f"board {self.board!r} is closed; call connect() first")
        return self._watcher

    def open(self, timeout: float) -> None:
        # A child may open what its parent has opened.
        self.close()
        database = self._connect(timeout)
        self._database, self._watcher = database, Watcher(database)

    def close(self) -> None:
        database, self._database = self._database, None
        watcher, self._watcher = self._watcher, None
        if database is None or watcher is None:
            return
        # A child hasn't the watcher's thread, and other locks may have been held at the fork.
        if database.usable:
            watcher.close()
        database.close()

    @property
    def connected(self) -> bool:
        database = self._database
        return database is not None and database.usable and database.reachable
