"""The Redis backends: they differ in how the server is found, and in nothing else."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from jobboard.backends.address import Address
from jobboard.backends.base import Backend, Capabilities, Waiter
from jobboard.backends.findings import Migration, Persistence, Shortage
from jobboard.backends.options import truth
from jobboard.backends.redis import layout, program_client
from jobboard.backends.redis.addresses import cluster_at, sentinel_at, standalone_at
from jobboard.backends.redis.boards import exists, key_of, names_of
from jobboard.backends.redis.books import Books
from jobboard.backends.redis.checks import ServerChecks
from jobboard.backends.redis.client import RedisClient
from jobboard.backends.redis.edges import Edges
from jobboard.backends.redis.entities import Entities
from jobboard.backends.redis.errors import LOADING
from jobboard.backends.redis.events import Subscriptions
from jobboard.backends.redis.jobs import Jobs
from jobboard.backends.redis.limits import Limits
from jobboard.backends.redis.maintenance import Maintenance
from jobboard.backends.redis.memory import shortages_of
from jobboard.backends.redis.options import OPTIONS, Durability, database
from jobboard.backends.redis.pool import ConnectionPool
from jobboard.backends.redis.schedules import Schedules
from jobboard.backends.redis.steps import Steps
from jobboard.backends.redis.topology import Topology
from jobboard.backends.redis.waiting import Waiters
from jobboard.backends.timelimit import time_limit
from jobboard.errors import BoardUnavailable, ReplyLost
from jobboard.events import EventKind, JobEvent

SOCKET_TIMEOUT = 5.0

_OPEN_PAUSE = 0.1


class RedisBackend(Backend):
    """``redis://HOST:PORT/DB``, ``rediss://`` with TLS, ``unix:///PATH?db=DB``; ``client=`` takes a client of redis-py.

    Every method is one script and one round trip. The server's clock judges claims.
    """

    scheme = "redis"
    #: At 15 to 20 microseconds a job on a quiet machine, a script of this many stays under 5 ms on a busy one too.
    capabilities = Capabilities(
        processes=True, durable=True, expiry="time", clock="store", largest_batch=100, largest_step=100,
        ties=True, edges=True, largest_graph=500,
    )  # fmt: skip
    options = {**OPTIONS, "db": database, "client": program_client.client}

    def __init__(
        self,
        board: str,
        address: Address,
        *,
        durability: Durability | str = "none",
        allow_eviction: bool = False,
        shards: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(board, address)
        #: Of how many shards the board is, each of which is a board ``NAME/3``; this one only keeps their number then.
        self._shards = shards
        self.key = key_of(board)
        wanted = Durability.parse(durability)
        timeout = options.setdefault("socket_timeout", SOCKET_TIMEOUT)
        topology = self._topology_of(address, options)
        self._pool = ConnectionPool(topology, timeout, reply_timeout=timeout + wanted.milliseconds / 1000)
        self.client = RedisClient(self._pool, board, self.key, wanted, timeout)
        self._checks = ServerChecks(self.client, self._pool, wanted, allow_eviction)
        self.jobs = jobs = Jobs(self.client)
        self.schedules = Schedules(self.client)
        self.entities = Entities(self.client)
        self.books = Books(self.client)
        self.limits = limits = Limits(self.client)
        self.edges, self.steps = Edges(self.client), Steps(self.client)
        self.maintenance = Maintenance(self.client, self._checks, limits)
        self._subscriptions = Subscriptions(self._pool, self.key, timeout)
        self._waiters = Waiters(self.client, self._subscriptions, jobs.claimed_under, jobs.search)
        self._is_open = False

    def _topology_of(self, address: Address, options: dict[str, Any]) -> Topology:
        """Return where the server is; ``options`` are those of redis-py's connections, and are completed."""
        client = options.pop("client", None)
        if client is None:
            return standalone_at(address, options)
        if address.hosts or address.path or address.username or set(options) != {"socket_timeout"}:
            raise ValueError("with client=, the server, the user and the options of a connection are the client's own")
        return program_client.topology_of(client, self.key, options)

    # -- connection ------------------------------------------------------------------------------------------------

    def exists(self, timeout: float) -> bool:
        with self._opened(timeout):
            return exists(self.client, self.key)

    def boards(self, timeout: float) -> list[str]:
        with self._opened(timeout):
            return names_of(self._pool)

    @contextlib.contextmanager
    def _opened(self, timeout: float) -> Iterator[None]:
        """Open nothing but the pool for the block."""
        self._pool.open()
        try:
            with time_limit(timeout):
                yield
        finally:
            self._pool.close()

    def open(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        for part in (self._pool, self._subscriptions, self._waiters):
            part.open()
        try:
            with time_limit(timeout):
                while not self._is_prepared(deadline):
                    time.sleep(_OPEN_PAUSE)
        except BaseException:
            self.close()
            raise
        self._is_open = True

    def _is_prepared(self, deadline: float) -> bool:
        """Check the server and load the scripts; False if that may succeed the next time, and there is time left.

        A server that was restarted answers, but refuses to work, until it has read its files.
        """
        try:
            self.client.send([("EXISTS", self.key)])
            self._checks.check_server()
            self.client.load()
            self._checks.check_rights()
            layout.check(self.client, self.board, self._shards)
            return True
        except BoardUnavailable as error:
            if time.monotonic() < deadline and (isinstance(error, ReplyLost) or LOADING in str(error)):
                return False
            raise

    def migrate(self, timeout: float) -> Migration:
        if not self._is_open:
            self._pool.open()
        try:
            with time_limit(timeout):
                self.client.load()
            return layout.upgrade(self.client, self.board)
        finally:
            if not self._is_open:
                self._pool.close()

    def close(self) -> None:
        self._is_open = False
        self._waiters.close()
        self._subscriptions.close()
        self._pool.close()

    @property
    def connected(self) -> bool:
        return self._is_open and self._pool.answers

    def now(self) -> float:
        return float(self.client.read("now")[1]) / 1e6

    def persistence(self) -> Persistence:
        return self._checks.persistence()

    def shortages(self) -> list[Shortage]:
        return shortages_of(self._checks.facts("memory"), str(self._pool.topology))

    # -- waiting and events ----------------------------------------------------------------------------------------

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        return self._waiters.waiter(names)

    def listen(self, receive: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        return self._subscriptions.listen(receive, kinds)


class RedisSentinelBackend(RedisBackend):
    """``redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/DB``: the primary that the Sentinels name."""

    scheme = "redis+sentinel"
    options = {**OPTIONS, "db": database, "ssl": truth, "sentinel_username": str, "sentinel_password": str}

    def _topology_of(self, address: Address, options: dict[str, Any]) -> Topology:
        return sentinel_at(address, options)


class RedisClusterBackend(RedisBackend):
    """``redis+cluster://HOST:PORT,HOST:PORT``: a board lives in one slot, on one node."""

    scheme = "redis+cluster"
    options = {**OPTIONS, "ssl": truth}

    def _topology_of(self, address: Address, options: dict[str, Any]) -> Topology:
        return cluster_at(address, options, self.key)
