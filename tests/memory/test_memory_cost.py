"""What the memory backend costs: counted, not timed; and what it keeps."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable

import pytest
from helpers.memory_seam import (
    HandClock,
    backend,
    claim_next,
    client_of,
    clock,
    consume,
    fill,
    fresh_name,
    hold_of,
    post,
    posting,
)

from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.memory import MemoryBackend
from jobboard.backends.rows import Extension, IfExists, JobRow, Trashing
from jobboard.states import LIVE, JobState

__all__ = ["backend", "clock"]


def calls_of(work: Callable[[], object]) -> int:
    """Count the functions that some work calls, of Python and of C."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_a_claim_calls_as_much_with_many_waiting_as_with_few() -> None:
    def cost(backlog: int) -> int:
        backend = client_of(fresh_name())
        for _ in range(backlog // 1_000):
            fill(backend, 1_000)
        fill(backend, backlog % 1_000)
        return calls_of(lambda: consume(backend, claim_next(backend)))

    few, many = cost(100), cost(50_000)
    assert 0 < many <= few + 5


def test_a_claim_calls_as_much_with_many_names_as_with_one(backend: MemoryBackend) -> None:
    post(backend, "n0")
    few = calls_of(lambda: consume(backend, claim_next(backend)))
    for number in range(2_000):
        post(backend, f"n{number}")
    assert calls_of(lambda: consume(backend, claim_next(backend))) <= few + 5


def test_paused_jobs_are_not_skipped_one_by_one(backend: MemoryBackend) -> None:
    post(backend, "free")
    few = calls_of(lambda: claim_next(backend))
    fill(backend, 5_000, "paused", priority=5)
    post(backend, "free")
    backend.maintenance.pause("paused")
    claimed: list[JobRow] = []
    assert calls_of(lambda: claimed.extend(claim_next(backend))) <= few + 30
    assert [row.name for row in claimed] == ["free"]


def test_a_name_filter_does_not_skip_others_one_by_one(backend: MemoryBackend) -> None:
    post(backend, "wanted")
    few = calls_of(lambda: claim_next(backend, {"wanted"}))
    fill(backend, 5_000, "unwanted", priority=5)
    post(backend, "wanted")
    claimed: list[JobRow] = []
    assert calls_of(lambda: claimed.extend(claim_next(backend, {"wanted", "absent"}))) <= few + 10
    assert [row.name for row in claimed] == ["wanted"]


@pytest.mark.parametrize("states", [{JobState.TRASHED}, {JobState.UNCLAIMED}, {JobState.COMPLETE}], ids=str)
def test_a_page_looks_at_nothing_but_what_it_shows(backend: MemoryBackend, states: set[JobState]) -> None:
    post(backend, "rare", priority=1)

    def look() -> None:
        backend.jobs.page(states, frozenset({"rare"}), None, 500)

    few = calls_of(look)
    consume(backend, claim_next(backend, {"often"}, limit=1_000))
    fill(backend, 3_000, "often")
    consume(backend, claim_next(backend, {"often"}, limit=1_000))
    backend.jobs.trash([Trashing(row.uuid, None) for row in backend.jobs.page(LIVE, None, None, 1_000).rows])
    assert calls_of(look) <= few + 40


def test_stats_and_counts_look_at_no_job(backend: MemoryBackend) -> None:
    post(backend)
    few = calls_of(backend.jobs.stats) + calls_of(backend.jobs.count)
    fill(backend, 5_000)
    assert calls_of(backend.jobs.stats) + calls_of(backend.jobs.count) <= few + 10


def test_renewals_leave_nothing_behind(backend: MemoryBackend, clock: HandClock) -> None:
    fill(backend, 50)
    held = claim_next(backend, limit=50)
    for expiry in itertools.islice(itertools.cycle([30.0, 60.0, 5.0, math.inf]), 400):
        clock.time += 1.0
        backend.jobs.extend([Extension(hold_of(row), expiry) for row in held])
        assert len(backend.store.timers) == (0 if math.isinf(expiry) else 50)
    assert backend.maintenance.audit(False) == []


def test_used_jobs_are_forgotten_without_anybody_tidying(backend: MemoryBackend, clock: HandClock) -> None:
    most = 0
    for _ in range(300):
        fill(backend, 10)
        consume(backend, claim_next(backend, limit=10), retention=0.0)
        clock.time += RETRY_WINDOW / 20
        most = max(most, len(backend.store.rows))
    assert most <= 10 * 20 + 20


def test_cancelled_jobs_are_forgotten_without_anybody_tidying(backend: MemoryBackend, clock: HandClock) -> None:
    for _ in range(300):
        backend.jobs.cancel([post(backend).uuid])
        clock.time += RETRY_WINDOW / 20
    assert len(backend.store.rows) <= 25


def test_nothing_is_left_of_jobs_that_are_forgotten(backend: MemoryBackend, clock: HandClock) -> None:
    for number in range(40):
        key = str(number % 7)
        backend.jobs.post([posting(key=key, if_exists=IfExists.REPLACE, delay=float(number % 2))])
    clock.time += 1.0
    consume(backend, claim_next(backend, limit=99))
    clock.time += 3600.0 + RETRY_WINDOW
    assert backend.maintenance.tidy(3) == 3
    assert backend.maintenance.tidy(99) == 4
    assert backend.maintenance.tidy(99) == 0
    store = backend.store
    leftovers = (store.rows, store.by_sequence, store.keys, store.aliases, store.retained, store.remembered)
    assert [len(part) for part in (*leftovers, store.timers)] == [0] * 7
    assert [len(index) for _, index in store.indexes()] == [0] * 6
