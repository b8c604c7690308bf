"""The memory backend: a board for the threads of one process, which is gone with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jobboard.backends.address import Address
from jobboard.backends.base import Backend, Capabilities, Waiter
from jobboard.backends.findings import Persistence
from jobboard.backends.memory.books import Books
from jobboard.backends.memory.client import MemoryClient
from jobboard.backends.memory.edge_store import EdgeStore
from jobboard.backends.memory.entities import Entities
from jobboard.backends.memory.job_reader import JobReader
from jobboard.backends.memory.jobs import Jobs
from jobboard.backends.memory.limits import Limits
from jobboard.backends.memory.maintenance import Maintenance
from jobboard.backends.memory.registry import store_of
from jobboard.backends.memory.schedules import Schedules
from jobboard.backends.memory.steps import Steps
from jobboard.backends.memory.subscriptions import Subscriptions
from jobboard.backends.roles import join_jobs
from jobboard.events import EventKind, JobEvent


class MemoryBackend(Backend):
    """Boards of one name in one process share a store, also with clients that come after the last one has closed.

    ``memory://SPACE`` names a space of its own: ``memory://a`` and ``memory://b`` share nothing. A claim is judged by
    a clock that never jumps. What a claim costs does not grow with the backlog.
    """

    scheme = "memory"
    capabilities = Capabilities(
        processes=False,
        durable=False,
        expiry="time",
        clock="client",
        largest_batch=10_000,
        largest_step=1000,
        ties=True,
        edges=True,
        largest_graph=100_000,
    )

    def __init__(self, board: str, address: Address, **options: Any) -> None:
        super().__init__(board, address, **options)
        #: What all clients of this board share; look at it and change it under its lock only.
        self.store = store_of(_space_of(address), board)
        self._client = client = MemoryClient(self.store)
        jobs = Jobs(client)
        self.jobs = join_jobs(jobs, JobReader(client))
        self.schedules = Schedules(client, jobs)
        self.limits = Limits(client)
        self.edges, self.steps = EdgeStore(client), Steps(client)
        self.entities = Entities(client)
        self.books = Books(client)
        self.maintenance = Maintenance(client, self.limits)
        self._subscriptions = Subscriptions(client)

    def open(self, timeout: float) -> None:
        with self._client.lock:
            self._client.is_open = True

    def close(self) -> None:
        with self._client.lock:
            self._client.is_open = False
            self._subscriptions.close()

    @property
    def connected(self) -> bool:
        return self._client.is_open

    def now(self) -> float:
        return self.store.clock()

    def persistence(self) -> Persistence:
        return Persistence(False, "it is gone with its process")

    # -- waiting and events ----------------------------------------------------------------------------------------

    def waiter(self, names: frozenset[str] | None) -> Waiter:
        return self._subscriptions.waiter(names)

    def listen(self, tell: Callable[[JobEvent], None], kinds: frozenset[EventKind]) -> Callable[[], None]:
        return self._subscriptions.listen(tell, kinds)


def _space_of(address: Address) -> str:
    """Return the name of the space that an address means; memory has no port, no path and no users."""
    if address.path.strip("/") or address.username or address.password or len(address.hosts) > 1:
        raise ValueError("a board in memory is memory:// or memory://SPACE; there is no path, no user, no second host")
    if not address.hosts:
        return ""
    ((host, port),) = address.hosts
    if port is not None:
        raise ValueError("a board in memory is memory:// or memory://SPACE; there is no port")
    return host
