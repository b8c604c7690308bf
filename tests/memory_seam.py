"""Words for tests that speak to the memory backend at the seam."""

from __future__ import annotations

import uuid

from jobboard.address import Address
from jobboard.backends.memory import MemoryBackend
from jobboard.entry import Claim, Consumption, Entry, Hold, JobState, NewEntry, Verdict

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


def posting(name: str = "resize", **options: object) -> NewEntry:
    fields: dict[str, object] = {"uuid": str(uuid.uuid4()), "priority": 3, "body": b"body"}
    return NewEntry(name=name, **{**fields, **options})  # type: ignore[arg-type]


def post(backend: MemoryBackend, name: str = "resize", **options: object) -> Entry:
    return backend.post([posting(name, **options)])[0].entry


def fill(backend: MemoryBackend, count: int, name: str = "resize", **options: object) -> list[Entry]:
    return [posted.entry for posted in backend.post([posting(name, **options) for _ in range(count)])]


def claim_next(
    backend: MemoryBackend, names: set[str] | None = None, *, limit: int = 1, expiry: float = 30.0, who: str = "alice"
) -> list[Entry]:
    return backend.claim_next(Claim(who, uuid.uuid4().hex, expiry), None if names is None else frozenset(names), limit)


def hold_of(entry: Entry) -> Hold:
    return Hold(entry.uuid, entry.owner or "", entry.token)


def consume(backend: MemoryBackend, entries: list[Entry], retention: float = 3600.0) -> list[Verdict]:
    return backend.consume([Consumption(hold_of(entry), None, retention) for entry in entries])


def state_of(backend: MemoryBackend, entry: Entry) -> JobState | None:
    (found,) = backend.read([entry.uuid])
    return None if found is None else found.state
