"""The memory backend: a board for the threads of one process, which is gone with it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from jobboard.backends.address import Address
from jobboard.backends.base import Backend, Capabilities, Waiter
from jobboard.backends.memory.books import Books
from jobboard.backends.memory.client import MemoryClient
from jobboard.backends.memory.entities import Entities
from jobboard.backends.memory.job_reader import JobReader
from jobboard.backends.memory.jobs import Jobs
from jobboard.backends.memory.maintenance import Maintenance
from jobboard.backends.memory.registry import store_of
from jobboard.backends.memory.schedules import Schedules
from jobboard.backends.memory.subscriptions import Subscriptions
from jobboard.backends.rows import (
    Abandonment,
    CancelOutcome,
    ClaimAnswer,
    ClaimRequest,
    Consumption,
    Extension,
    Fence,
    JobRow,
    NewJob,
    Page,
    Posted,
    Trashing,
    TrashOutcome,
    Verdict,
)
from jobboard.events import EventKind, HistoryEntry, JobEvent
from jobboard.states import JobState
from jobboard.stats import BoardStats


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
    )

    def __init__(self, board: str, address: Address, **options: Any) -> None:
        super().__init__(board, address, **options)
        #: What all clients of this board share; look at it and change it under its lock only.
        self.store = store_of(_space_of(address), board)
        self._client = client = MemoryClient(self.store)
        self._jobs = Jobs(client)
        self._job_reader = JobReader(client)
        self.schedules = Schedules(client, self._jobs)
        self.entities = Entities(client)
        self.books = Books(client)
        self.maintenance = Maintenance(client)
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

    # -- jobs ------------------------------------------------------------------------------------------------------

    def post(self, rows: Sequence[NewJob]) -> list[Posted]:
        return self._jobs.post(rows)

    def cancel(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[CancelOutcome]:
        return self._jobs.cancel(uuids, by, reason)

    def claim(self, uuid: str, claim: ClaimRequest) -> JobRow | None:
        return self._jobs.claim(uuid, claim)

    def claim_next(self, claim: ClaimRequest, names: frozenset[str] | None, limit: int) -> list[JobRow]:
        return self._jobs.claim_next(claim, names, limit)

    def claimed_under(self, claim_id: str) -> list[JobRow]:
        return self._jobs.claimed_under(claim_id)

    def extend(self, renewals: Sequence[Extension]) -> list[ClaimAnswer]:
        return self._jobs.extend(renewals)

    def consume(self, ends: Sequence[Consumption]) -> list[ClaimAnswer]:
        return self._jobs.consume(ends)

    def abandon(self, ends: Sequence[Abandonment]) -> list[ClaimAnswer]:
        return self._jobs.abandon(ends)

    def trash(self, ends: Sequence[Trashing]) -> list[ClaimAnswer]:
        return self._jobs.trash(ends)

    def checkpoint(self, fence: Fence, state: bytes) -> ClaimAnswer:
        return self._jobs.checkpoint(fence, state)

    def release(self, uuid: str, token: int, reason: str) -> Verdict:
        return self._jobs.release(uuid, token, reason)

    def run_now(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[Verdict]:
        return self._jobs.run_now(uuids, by, reason)

    def reprioritize(self, uuids: Sequence[str], priority: int, by: str | None, reason: str | None) -> list[Verdict]:
        return self._jobs.reprioritize(uuids, priority, by, reason)

    def restore(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        return self._jobs.restore(uuids, by, reason)

    def purge(self, uuids: Sequence[str], by: str | None = None, reason: str | None = None) -> list[TrashOutcome]:
        return self._jobs.purge(uuids, by, reason)

    def read(self, uuids: Sequence[str]) -> list[JobRow | None]:
        return self._job_reader.read(uuids)

    def history(self, uuid: str) -> list[HistoryEntry]:
        return self._job_reader.history(uuid)

    def find(self, name: str, key: str) -> JobRow | None:
        return self._job_reader.find(name, key)

    def page(
        self, states: Collection[JobState], names: frozenset[str] | None, cursor: object | None, size: int
    ) -> Page:
        return self._job_reader.page(states, names, cursor, size)

    def stats(self) -> BoardStats:
        return self._job_reader.stats()

    def count(self) -> int:
        return self._job_reader.count()

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
