"""A board on an SQL server."""

from __future__ import annotations

import abc
import math
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, ParamSpec, TypeVar

from sqlalchemy.engine import Engine

from jobboard.backends.address import Address
from jobboard.backends.base import Capabilities
from jobboard.backends.findings import Migration, Persistence
from jobboard.backends.options import seconds, truth
from jobboard.backends.sql.backend import SqlBackend
from jobboard.backends.sql.dialect import DEFAULT_PREFIX, TableNames, check_name
from jobboard.backends.sql.driver import LOCK_TIMEOUT, Driver
from jobboard.backends.sql.migration import board_names, migrate, statements_of_migration
from jobboard.backends.sql.server_database import ServerDatabase
from jobboard.backends.timelimit import is_time_over, seconds_for_locks, time_limit
from jobboard.errors import RowLocked, TransactionUndone

P = ParamSpec("P")
T = TypeVar("T")

#: Seconds: the longest random pause at first and at last, and for how long to try. Random, so that two transactions
#: that have met don't meet again.
MIN_PAUSE, MAX_PAUSE, RETRY_TIMEOUT = 0.002, 0.5, 10.0


def check_pool_size(value: Any) -> int:
    size = int(value)
    if size < 1:
        raise ValueError(f"must be 1 or more, not {value!r}")
    return size


def check_engine(value: Any) -> Engine:
    if not isinstance(value, Engine):
        raise ValueError(f"must be an SQLAlchemy Engine, not {type(value).__name__}")
    return value


class ServerBackend(SqlBackend[ServerDatabase]):
    """Every operation is one transaction: it has happened, or nothing has.

    :param engine: an SQLAlchemy engine that makes the connections, instead of the address; it is left as it was found.
    :param prefix: what the names of the tables begin with: several installations can share a database.
    :param pool_size: how many connections this board uses at the same time, not counting one that waits.
    :param migrate: whether to create the tables when the board is opened and there are none.
    :param socket_timeout: seconds after which a server that does not reply is given up.
    """

    #: Speaks to the server.
    driver: ClassVar[type[Driver]]
    #: The dialects and drivers of SQLAlchemy's engines that it takes, the usual one first.
    engines: ClassVar[tuple[str, ...]]
    capabilities: ClassVar[Capabilities] = Capabilities(
        processes=True,
        durable=True,
        expiry="time",
        clock="store",
        largest_batch=1000,
        largest_step=1000,
        transactions=True,
        ties=True,
        edges=True,
        largest_graph=10_000,
    )
    options: ClassVar[Mapping[str, Callable[[Any], Any]]] = {
        "engine": check_engine,
        "prefix": check_name,
        "pool_size": check_pool_size,
        "migrate": truth,
        "socket_timeout": seconds,
    }

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
        if engine is not None:
            found = f"{engine.dialect.name}+{engine.dialect.driver}"
            if found not in self.engines:
                raise ValueError(f"the engine speaks {found}; make it with {self.engines[0]}://")
        self._engine = engine
        self._table_names = TableNames(prefix, schema)
        self._pool_size = pool_size
        self._migrate = migrate
        self._socket_timeout = socket_timeout

    @abc.abstractmethod
    def _connector(self) -> tuple[Callable[[float], Any], str]:
        """Return what connects to the server of the address, and where that is; no password."""

    def _driver(self) -> Driver:
        if self._engine is None:
            connect, where = self._connector()
        else:
            connect, where = self._connect_by_engine(self._engine), self._engine.url.render_as_string()
        return self._driver_of(connect, f"{self.driver.errors.server} at {where}", self._table_names)

    def _driver_of(self, connect: Callable[[float], Any], where: str, table_names: TableNames) -> Driver:
        return self.driver(connect, where, table_names)

    def _connect_by_engine(self, engine: Engine) -> Callable[[float], Any]:
        """Make connections as the engine makes them, but beside its pool: none of its own is changed or taken."""
        pool = engine.pool.recreate()

        def connect(_timeout: float) -> Any:
            pooled = pool.connect()
            connection = pooled.driver_connection
            pooled.detach()
            self.driver.adopt(connection, self._socket_timeout)
            return connection

        return connect

    def _connect(self, timeout: float) -> ServerDatabase:
        return ServerDatabase(
            self._driver(),
            self.board,
            pool_size=self._pool_size,
            migrate=self._migrate,
            timeout=timeout,
            reply_timeout=self._socket_timeout,
        )

    def migrate(self, timeout: float) -> Migration:
        return migrate(self._driver(), timeout)

    def statements_of_migration(self, timeout: float) -> list[str]:
        return statements_of_migration(self._driver(), timeout)

    def boards(self, timeout: float) -> list[str]:
        return board_names(self._driver(), timeout)

    def now(self) -> float:
        return self._run(self.database.now)

    def persistence(self) -> Persistence:
        return self._run(self.operations.maintenance.persistence)

    def _run(self, operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run an operation again if the server has undone its transaction because of others."""
        return retry(operation, *args, **kwargs)


def retry(operation: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run an operation, and again if its transaction was undone: then all that the first try did is gone.

    One that meets a locked row is run again for as long as the present call waits for locks (``lock_wait``).
    """
    longest, deadline, began = MIN_PAUSE, math.inf, time.monotonic()
    while True:
        try:
            with time_limit(deadline - time.monotonic()):
                return operation(*args, **kwargs)
        except RowLocked:
            # A try that a time limit cuts short would leave its statement waiting in the server.
            if is_time_over() or time.monotonic() + LOCK_TIMEOUT > began + seconds_for_locks():
                raise
        except TransactionUndone as undone:
            now = time.monotonic()
            deadline = min(deadline, now + RETRY_TIMEOUT)
            if undone.is_silent or is_time_over() or now > deadline:
                raise
        time.sleep(random.uniform(0, longest))
        longest = min(longest * 2, MAX_PAUSE)
