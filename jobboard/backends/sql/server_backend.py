"""What the backends on SQL servers share."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from sqlalchemy.engine import Engine

from jobboard.backends.address import Address
from jobboard.backends.base import Backend, Capabilities
from jobboard.backends.options import seconds, truth
from jobboard.backends.rows import Migration
from jobboard.backends.sql.conflicts import taken_again
from jobboard.backends.sql.connecting import Connecting
from jobboard.backends.sql.driver import Driver
from jobboard.backends.sql.joining import JoinedBackend
from jobboard.backends.sql.migrating import board_names, migrate
from jobboard.backends.sql.naming import DEFAULT_PREFIX, Naming, check_name
from jobboard.backends.sql.server import Server


def check_pool_size(value: Any) -> int:
    size = int(value)
    if size < 1:
        raise ValueError(f"must be 1 or more, not {value!r}")
    return size


def check_engine(value: Any) -> Engine:
    if not isinstance(value, Engine):
        raise ValueError(f"must be an SQLAlchemy Engine, not {type(value).__name__}")
    return value


class ServerBackend(Connecting[Server]):
    """A board on an SQL server; every primitive is one transaction: it has happened, or nothing has.

    :param engine: an SQLAlchemy engine that makes the connections, instead of the address; it is left as it was found.
    :param prefix: what the names of the tables begin with: several installations can share a database.
    :param pool_size: how many connections this board uses at the same time, not counting one that waits.
    :param migrate: whether to create and upgrade the tables when the board is opened.
    :param socket_timeout: seconds after which a server that does not reply is given up.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        processes=True,
        durable=True,
        expiry="time",
        clock="store",
        largest_batch=1000,
        largest_step=1000,
        transactions=True,
    )
    options: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "engine": check_engine,
        "prefix": check_name,
        "pool_size": check_pool_size,
        "migrate": truth,
        "socket_timeout": seconds,
    }

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in _PRIMITIVES:
            if name in vars(cls) or cls.__base__ is ServerBackend:
                setattr(cls, name, taken_again(getattr(cls, name)))

    def __init__(
        self,
        board: str,
        address: Address,
        *,
        engine: Engine | None = None,
        prefix: str = DEFAULT_PREFIX,
        schema: str | None = None,
        pool_size: int = 5,
        migrate: bool = True,
        socket_timeout: float = 30.0,
    ) -> None:
        super().__init__(board, address)
        self._engine = engine
        self._naming = Naming(prefix, schema)
        self._pool_size = pool_size
        self._migrate = migrate
        self._socket_timeout = socket_timeout

    @abc.abstractmethod
    def _driver(self) -> Driver:
        """Return what speaks to the server; raises ValueError for an address or engine that it can't use."""

    def _connect(self, timeout: float) -> Server:
        return Server(
            self._driver(), self.board, pool_size=self._pool_size, migrate=self._migrate, timeout=timeout,
            reply_timeout=self._socket_timeout,
        )  # fmt: skip

    def migrate(self, timeout: float) -> Migration:
        return migrate(self._driver(), timeout)

    def boards(self, timeout: float) -> list[str]:
        return board_names(self._driver(), timeout)

    def now(self) -> float:
        return self.database.now()

    def within(self, connection: Any) -> Backend:
        return JoinedBackend(self, self.database.join(connection))


#: All that is one transaction, or one look, and may be taken again after it was undone.
_PRIMITIVES = (
    "now", "post", "cancel", "claim", "claim_next", "claimed_under", "extend", "consume", "abandon", "trash",
    "checkpoint", "read", "history", "find", "page", "stats", "count", "ready_in", "listen", "release", "restore",
    "purge", "pause", "resume", "paused", "tidy", "audit", "put_entity", "remove_entity", "entities", "save_book",
    "load_book", "destroy_book", "step_schedules", "read_schedules", "due_schedules", "page_schedules",
)  # fmt: skip
