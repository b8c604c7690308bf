"""Words for tests that speak to the memory backend at the seam."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from jobboard.backends.address import Address
from jobboard.backends.memory import MemoryBackend
from jobboard.backends.rows import ClaimRequest, Consumption, Fence, JobRow, NewJob, Verdict
from jobboard.states import JobState

#: The most seconds that a test waits for what must happen.
DEADLINE = 20.0


class HandClock:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        return self.time


def fresh_name() -> str:
    return f"memory-{uuid.uuid4()}"


def client_of(name: str, uri: str = "memory://") -> MemoryBackend:
    backend = MemoryBackend(name, Address.parse(uri))
    backend.open(1.0)
    return backend


@pytest.fixture
def backend() -> Iterator[MemoryBackend]:
    backend = client_of(fresh_name())
    yield backend
    backend.close()


@pytest.fixture
def clock(backend: MemoryBackend) -> HandClock:
    clock = HandClock()
    backend.store.clock = clock
    return clock


def posting(name: str = "resize", **options: object) -> NewJob:
    fields: dict[str, object] = {"uuid": str(uuid.uuid4()), "priority": 3, "body": b"body"}
    return NewJob(name=name, **{**fields, **options})  # type: ignore[arg-type]


def post(backend: MemoryBackend, name: str = "resize", **options: object) -> JobRow:
    return backend.jobs.post([posting(name, **options)])[0].row


def fill(backend: MemoryBackend, count: int, name: str = "resize", **options: object) -> list[JobRow]:
    return [posted.row for posted in backend.jobs.post([posting(name, **options) for _ in range(count)])]


def claim_next(
    backend: MemoryBackend, names: set[str] | None = None, *, limit: int = 1, expiry: float = 30.0, who: str = "alice"
) -> list[JobRow]:
    return backend.jobs.claim_next(
        ClaimRequest(who, uuid.uuid4().hex, expiry), None if names is None else frozenset(names), limit
    )


def hold_of(row: JobRow) -> Fence:
    return Fence(row.uuid, row.owner or "", row.token)


def consume(backend: MemoryBackend, rows: list[JobRow], retention: float = 3600.0) -> list[Verdict]:
    return backend.jobs.consume([Consumption(hold_of(row), None, retention) for row in rows])


def state_of(backend: MemoryBackend, row: JobRow) -> JobState | None:
    (found,) = backend.jobs.read([row.uuid])
    return None if found is None else found.state
