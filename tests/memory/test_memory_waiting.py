"""Waiting and listening on the memory backend."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from helpers.memory_seam import DEADLINE, HandClock, backend, claim_next, client_of, clock, hold_of, post

from jobboard.backends.base import Waiter
from jobboard.backends.memory import MemoryBackend
from jobboard.backends.rows import Abandonment, Extension
from jobboard.errors import BoardUnavailable
from jobboard.events import EventKind, JobEvent
from jobboard.states import JobState

__all__ = ["backend", "clock"]

WANTED = frozenset({"wanted"})


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as threads:
        yield threads


def begin_to_wait(threads: ThreadPoolExecutor, waiter: Waiter, timeout: float | None = None) -> Future[None]:
    """Ask, and wait in another thread, for ever if nothing happens."""
    assert waiter.ready_in() != 0.0
    return threads.submit(waiter.wait, timeout)


def test_the_next_moment_is_that_of_the_wanted_names(backend: MemoryBackend, clock: HandClock) -> None:
    post(backend, "crop")
    post(backend, "resize", delay=60.0)
    post(backend, "rotate")
    claim_next(backend, {"rotate"}, expiry=20.0)
    post(backend, "later", delay=90.0)

    def ready_in(*names: str) -> float | None:
        return backend.waiter(frozenset(names)).ready_in()

    assert [ready_in("crop", "later"), ready_in("resize", "later"), ready_in("rotate", "resize")] == [0, 60, 20]
    assert (ready_in("never"), ready_in(), backend.waiter(None).ready_in()) == (None, None, 0.0)
    backend.maintenance.pause("crop")
    assert (backend.waiter(None).ready_in(), ready_in("crop")) == (20.0, None)
    backend.maintenance.pause("rotate")
    assert (backend.waiter(None).ready_in(), ready_in("rotate", "later")) == (60.0, 90.0)
    backend.maintenance.pause(None)
    assert (backend.waiter(None).ready_in(), ready_in("resize")) == (None, None)


def test_a_claim_that_never_ends_is_nothing_to_wait_for(backend: MemoryBackend) -> None:
    post(backend)
    claim_next(backend, expiry=math.inf)
    assert backend.waiter(None).ready_in() is None


def test_a_wait_ends_with_a_post(backend: MemoryBackend, threads: ThreadPoolExecutor) -> None:
    waiting = begin_to_wait(threads, backend.waiter(WANTED))
    post(backend, "wanted")
    waiting.result(DEADLINE)


def test_what_happens_between_asking_and_waiting_is_not_missed(backend: MemoryBackend) -> None:
    waiter = backend.waiter(WANTED)
    assert waiter.ready_in() is None
    post(backend, "wanted")
    waiter.wait(None)
    assert waiter.ready_in() == 0.0


@pytest.mark.parametrize("name", [None, "wanted"])
def test_a_wait_ends_with_a_resume(backend: MemoryBackend, threads: ThreadPoolExecutor, name: str | None) -> None:
    post(backend, "wanted")
    backend.maintenance.pause(name)
    waiting = begin_to_wait(threads, backend.waiter(WANTED))
    backend.maintenance.resume(name)
    waiting.result(DEADLINE)


def test_a_wait_without_end_ends_by_itself_when_a_delay_is_over(
    backend: MemoryBackend, threads: ThreadPoolExecutor
) -> None:
    waiter = backend.waiter(WANTED)
    waiting = begin_to_wait(threads, waiter)
    post(backend, "wanted", delay=0.05)
    waiting.result(DEADLINE)
    assert waiter.ready_in() == 0.0


def test_a_wait_learns_of_a_claim_that_ends_sooner(backend: MemoryBackend, threads: ThreadPoolExecutor) -> None:
    post(backend, "wanted")
    (held,) = claim_next(backend, expiry=600.0)
    waiter = backend.waiter(WANTED)
    waiting = begin_to_wait(threads, waiter)
    backend.jobs.extend([Extension(hold_of(held), 0.05)])
    waiting.result(DEADLINE)
    assert waiter.ready_in() == 0.0


@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_a_wait_ends_with_an_abandon(backend: MemoryBackend, threads: ThreadPoolExecutor, delay: float) -> None:
    post(backend, "wanted")
    (held,) = claim_next(backend, expiry=math.inf)
    waiting = begin_to_wait(threads, backend.waiter(WANTED))
    backend.jobs.abandon([Abandonment(hold_of(held), delay)])
    waiting.result(DEADLINE)


def seconds_of(waiter: Waiter, timeout: float) -> float:
    """Return how long a wait lasts."""
    began = time.monotonic()
    waiter.wait(timeout)
    return time.monotonic() - began


@pytest.mark.parametrize("delay", [None, 0.001])
def test_what_others_wait_for_wakes_nobody(backend: MemoryBackend, delay: float | None) -> None:
    waiter = backend.waiter(WANTED)
    assert waiter.ready_in() is None
    post(backend, "unwanted", delay=delay)
    backend.maintenance.pause("unwanted")
    backend.maintenance.resume("unwanted")
    assert seconds_of(waiter, 0.05) >= 0.05


def test_one_post_wakes_every_waiter_of_its_name(backend: MemoryBackend, threads: ThreadPoolExecutor) -> None:
    other = client_of(backend.board)
    waiting = [begin_to_wait(threads, client.waiter(names)) for client in (backend, other) for names in (None, WANTED)]
    post(backend, "wanted")
    for future in waiting:
        future.result(DEADLINE)


def test_an_interrupt_ends_the_present_wait(backend: MemoryBackend, threads: ThreadPoolExecutor) -> None:
    waiter = backend.waiter(None)
    waiting = begin_to_wait(threads, waiter)
    waiter.interrupt()
    waiting.result(DEADLINE)


def test_interrupts_end_the_next_wait_and_no_other(backend: MemoryBackend) -> None:
    waiter = backend.waiter(None)
    waiter.interrupt()
    waiter.interrupt()
    assert waiter.ready_in() is None
    waiter.wait(None)
    assert seconds_of(waiter, 0.05) >= 0.05


def test_a_close_wakes_its_own_waiters_and_ends_its_listeners_only(
    backend: MemoryBackend, threads: ThreadPoolExecutor
) -> None:
    other = client_of(backend.board)
    mine, theirs = other.waiter(None), backend.waiter(None)
    closed, going = begin_to_wait(threads, mine), begin_to_wait(threads, theirs)
    received: dict[MemoryBackend, list[JobEvent]] = {backend: [], other: []}
    for client, events in received.items():
        client.listen(events.append, frozenset(EventKind))
    other.close()
    with pytest.raises(BoardUnavailable):
        closed.result(DEADLINE)
    for call in (lambda: mine.wait(0.0), mine.ready_in):
        with pytest.raises(BoardUnavailable):
            call()
    post(backend)
    going.result(DEADLINE)
    assert ([event.kind for event in received[backend]], received[other]) == ([EventKind.POSTED], [])


def test_nothing_is_left_of_waiters_and_listeners(backend: MemoryBackend) -> None:
    for _ in range(3):
        with backend.waiter(None) as waiter:
            waiter.wait(0.0)
        waiter.close()
        end = backend.listen(print, frozenset())
        end()
        end()
    other = client_of(backend.board)
    other.waiter(None)
    other.listen(print, frozenset(EventKind))
    other.close()
    assert (len(backend.store.waiters), len(backend.store.listeners)) == (0, 0)


@pytest.mark.parametrize(
    "call", [lambda backend: backend.waiter(None), lambda backend: backend.listen(print, frozenset())]
)
def test_nobody_waits_or_listens_on_what_is_closed(
    backend: MemoryBackend, call: Callable[[MemoryBackend], object]
) -> None:
    backend.close()
    with pytest.raises(BoardUnavailable):
        call(backend)
    assert (len(backend.store.waiters), len(backend.store.listeners)) == (0, 0)


@pytest.mark.parametrize("timeout", [0.0, 0.02])
def test_a_timeout_ends_a_wait(backend: MemoryBackend, timeout: float) -> None:
    waiter = backend.waiter(None)
    assert waiter.ready_in() is None
    assert timeout <= seconds_of(waiter, timeout) < DEADLINE


def test_a_listener_that_fails_harms_neither_the_change_nor_the_others(
    backend: MemoryBackend, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(event: JobEvent) -> None:
        raise RuntimeError("a listener's own fault")

    received: list[EventKind] = []
    backend.listen(fail, frozenset(EventKind))
    backend.listen(lambda event: received.append(event.kind), frozenset(EventKind))
    job = post(backend)
    claim_next(backend)
    (seen,) = backend.jobs.read([job.uuid])
    assert seen is not None
    assert (received, seen.state) == ([EventKind.POSTED, EventKind.CLAIMED], JobState.CLAIMED)
    assert "a listener failed" in caplog.text
    assert backend.maintenance.audit(False) == []


def test_a_listener_that_ends_itself_skips_nobody(backend: MemoryBackend) -> None:
    received: list[str] = []
    ends: list[Callable[[], None]] = []

    def hear_once(event: JobEvent) -> None:
        received.append("once")
        ends[0]()

    ends.append(backend.listen(hear_once, frozenset(EventKind)))
    backend.listen(lambda event: received.append("always"), frozenset(EventKind))
    post(backend)
    post(backend)
    assert received == ["once", "always", "always"]


class _NamesThatInterrupt(frozenset[str]):
    """Runs what a signal handler would run, at the moment at which a waiter is asked for its names."""

    handler: Callable[[], object]

    def __contains__(self, name: object) -> bool:
        self.handler()
        return super().__contains__(name)


def test_a_signal_handler_may_open_a_waiter_while_its_thread_notifies(backend: MemoryBackend) -> None:
    names = _NamesThatInterrupt(WANTED)
    names.handler = lambda: backend.waiter(None)
    with backend.waiter(names) as waiter:
        assert waiter.ready_in() is None
        post(backend, "wanted")
        waiter.wait(DEADLINE)
        assert waiter.ready_in() == 0.0
