"""What the clients of one memory board share, and the clock that they go by."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.memory_seam import (
    DEADLINE,
    HandClock,
    backend,
    claim_next,
    client_of,
    clock,
    consume,
    fresh_name,
    post,
    state_of,
)

from jobboard.backends.address import Address
from jobboard.backends.memory import MemoryBackend
from jobboard.backends.memory.store import MemoryStore
from jobboard.backends.rows import Verdict
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent
from jobboard.states import LIVE, JobState

__all__ = ["backend", "clock"]


def test_clients_of_one_name_share() -> None:
    name = fresh_name()
    one, two = client_of(name), client_of(name)
    job = post(one)
    assert two.jobs.count() == 1
    assert claim_next(two)[0].uuid == job.uuid


def test_what_the_last_client_leaves_is_found_by_the_next() -> None:
    name = fresh_name()
    first = client_of(name)
    job = post(first)
    (held,) = claim_next(first)
    first.maintenance.pause("crop")
    first.close()
    again = client_of(name)
    assert state_of(again, job) is JobState.CLAIMED
    assert again.maintenance.paused() == {"crop"}
    assert consume(again, [held]) == [Verdict.DONE]


def test_a_client_can_be_opened_again(backend: MemoryBackend) -> None:
    post(backend)
    backend.close()
    assert not backend.connected
    with pytest.raises(BoardUnavailable):
        backend.jobs.count()
    backend.open(1.0)
    assert (backend.connected, backend.jobs.count()) == (True, 1)


@pytest.mark.parametrize(
    ("one", "two"), [("memory://", "memory://a"), ("memory://a", "memory://b"), ("memory://a", "memory://A")]
)
def test_spaces_share_nothing(one: str, two: str) -> None:
    name = fresh_name()
    post(client_of(name, one))
    assert (client_of(name, two).jobs.count(), client_of(name, one).jobs.count()) == (0, 1)


def test_names_share_nothing(backend: MemoryBackend) -> None:
    other = client_of(backend.board + "/")
    post(backend, key="k")
    assert (other.jobs.count(), other.jobs.find("resize", "k")) == (0, None)


@pytest.mark.parametrize("uri", ["memory://a:1", "memory:///path", "memory://a/path", "memory://me@a", "memory://a,b"])
def test_what_memory_does_not_have_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="memory"):
        MemoryBackend("board", Address.parse(uri))


def test_threads_that_open_one_name_first_share_it() -> None:
    name, begin = fresh_name(), threading.Barrier(8)

    def open_and_post() -> MemoryStore:
        begin.wait(DEADLINE)
        client = client_of(name)
        post(client)
        return client.store

    with ThreadPoolExecutor(8) as threads:
        stores = [future.result(DEADLINE) for future in [threads.submit(open_and_post) for _ in range(8)]]
    assert len(set(map(id, stores))) == 1
    assert client_of(name).jobs.count() == 8


def test_a_caller_cannot_change_the_store_by_what_it_got(backend: MemoryBackend) -> None:
    job = post(backend, key="k")
    read = backend.jobs.read([job.uuid])[0]
    page = backend.jobs.page(LIVE, None, None, 9).rows[0]
    found = backend.jobs.find("resize", "k")
    for got in (job, read, page, found, *claim_next(backend)):
        assert got is not None
        got.state, got.owner, got.body = JobState.TRASHED, "mallory", b"changed"
    (now,) = backend.jobs.read([job.uuid])
    assert now is not None
    assert (now.state, now.owner, now.body) == (JobState.CLAIMED, "alice", b"body")


def test_the_clock_is_near_the_wall_clock_and_only_goes_forward(backend: MemoryBackend) -> None:
    moments = [backend.now() for _ in range(1_000)]
    assert moments == sorted(moments)
    assert abs(moments[0] - time.time()) < 60


def test_a_jump_of_the_wall_clock_ends_no_claim(backend: MemoryBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    post(backend)
    (held,) = claim_next(backend)
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert backend.now() < 4e9
    assert consume(backend, [held]) == [Verdict.DONE]


def test_a_claim_ends_at_its_moment_and_not_before(backend: MemoryBackend, clock: HandClock) -> None:
    job = post(backend)
    claim_next(backend, expiry=30.0)
    clock.time += 29.999
    assert state_of(backend, job) is JobState.CLAIMED
    clock.time += 0.001
    assert state_of(backend, job) is JobState.UNCLAIMED


def test_all_that_is_due_is_settled_first_by_every_primitive(backend: MemoryBackend, clock: HandClock) -> None:
    looks: list[Callable[[MemoryBackend], object]] = [
        lambda backend: backend.jobs.count(),
        lambda backend: backend.jobs.stats(),
        lambda backend: backend.maintenance.paused(),
        lambda backend: backend.entities.all(),
        lambda backend: backend.jobs.read([]),
        lambda backend: backend.jobs.find("resize", "k"),
        lambda backend: backend.jobs.page(LIVE, None, None, 9),
        lambda backend: backend.jobs.history(""),
        lambda backend: backend.maintenance.tidy(9),
        lambda backend: backend.jobs.post([]),
        lambda backend: backend.jobs.restore([]),
        lambda backend: backend.waiter(None).ready_in(),
    ]
    events: list[JobEvent] = []
    backend.listen(events.append, frozenset({EventKind.EXPIRED, EventKind.DUE}))
    for look in looks:
        events.clear()
        held, delayed = post(backend, "held"), post(backend, "delayed", delay=5.0)
        claim_next(backend, {"held"}, expiry=5.0)
        clock.time += 5.0
        look(backend)
        assert [(event.kind, event.uuid) for event in events] == [
            (EventKind.EXPIRED, held.uuid), (EventKind.DUE, delayed.uuid),
        ]  # fmt: skip
        backend.jobs.cancel([held.uuid, delayed.uuid])
