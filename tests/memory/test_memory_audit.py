"""Damage in a store in memory: the audit finds it, and repairs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from helpers.memory_seam import claim_next, client_of, consume, fresh_name, hold_of, post, state_of

from jobboard.backends.memory import MemoryBackend
from jobboard.backends.memory.store import MemoryStore
from jobboard.backends.memory.stored_job import StoredJob
from jobboard.backends.rows import Trashing
from jobboard.states import JobState


@pytest.fixture
def backend() -> Iterator[MemoryBackend]:
    backend = client_of(fresh_name())
    yield backend
    backend.close()


def _row(store: MemoryStore, state: JobState) -> StoredJob:
    return next(row for row in store.rows.values() if row.state is state and row.index is not None)


def _lose_owner(store: MemoryStore) -> None:
    _row(store, JobState.CLAIMED).owner = None


def _lose_key(store: MemoryStore) -> None:
    store.keys.clear()


def _lead_a_key_to_a_dead_job(store: MemoryStore) -> None:
    store.keys["resize", "stray"] = _row(store, JobState.COMPLETE)


def _lose_a_ready_job(store: MemoryStore) -> None:
    row = _row(store, JobState.UNCLAIMED)
    store.unclaimed.remove(row.position, row.name)


def _list_a_stranger(store: MemoryStore) -> None:
    store.unclaimed.add(10**6, "resize")


def _list_in_two_states(store: MemoryStore) -> None:
    row = _row(store, JobState.TRASHED)
    store.unclaimed.add(row.position, row.name)


def _lose_a_timer(store: MemoryStore) -> None:
    row = _row(store, JobState.DELAYED)
    store.timers.remove((row.due or 0.0, row.sequence), row.name)


def _forget_the_delay(store: MemoryStore) -> None:
    _row(store, JobState.DELAYED).run_at = None


def _change_a_state(store: MemoryStore) -> None:
    _row(store, JobState.UNCLAIMED).state = JobState.TRASHED


def _claim_what_is_complete(store: MemoryStore) -> None:
    _row(store, JobState.COMPLETE).claim_id = "c"


def _lose_a_sequence(store: MemoryStore) -> None:
    del store.by_sequence[_row(store, JobState.TRASHED).sequence]


def _never_end_a_retention(store: MemoryStore) -> None:
    store.retained.clear()


def _never_forget(store: MemoryStore) -> None:
    store.remembered.clear()


DAMAGES = [
    _lose_owner, _lose_key, _lead_a_key_to_a_dead_job, _lose_a_ready_job, _list_a_stranger, _list_in_two_states,
    _lose_a_timer, _forget_the_delay, _change_a_state, _claim_what_is_complete, _lose_a_sequence,
    _never_end_a_retention, _never_forget,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_found_and_mended(backend: MemoryBackend, damage: Callable[[MemoryStore], None]) -> None:
    unclaimed, _ = post(backend, key="k"), post(backend, delay=600.0)
    for end in ("consume", "trash", "hold"):
        post(backend, end)
        held = claim_next(backend, {end}, expiry=600.0)
        if end == "consume":
            consume(backend, held)
        elif end == "trash":
            backend.jobs.trash([Trashing(held[0].uuid, hold_of(held[0]))])
    backend.jobs.cancel([post(backend).uuid])
    assert backend.maintenance.audit(False) == []
    damage(backend.store)
    found = backend.maintenance.audit(False)
    assert found
    assert backend.maintenance.audit(False) == found
    assert all(finding.problem and not finding.repaired for finding in found)
    mended = backend.maintenance.audit(True)
    assert [(finding.uuid, finding.problem) for finding in mended] == [(each.uuid, each.problem) for each in found]
    assert all(finding.repaired for finding in mended)
    assert backend.maintenance.audit(False) == []
    # Two jobs that were held or ready are claimable or held still, and everything can be used as before.
    assert state_of(backend, unclaimed) in (JobState.UNCLAIMED, JobState.TRASHED)
    assert backend.jobs.count() + backend.jobs.stats().trashed == 4
    consume(backend, claim_next(backend, limit=9), retention=0.0)
    post(backend, key="another")
    assert backend.maintenance.audit(False) == []


def test_of_two_live_jobs_with_one_key_the_first_keeps_it(backend: MemoryBackend) -> None:
    first, second = post(backend, key="a"), post(backend, key="b")
    backend.store.rows[second.uuid].key = "a"
    assert backend.maintenance.audit(True) != []
    assert backend.maintenance.audit(False) == []
    found = backend.jobs.find("resize", "a")
    assert found is not None
    assert (found.uuid, backend.jobs.find("resize", "b"), backend.jobs.count()) == (first.uuid, None, 2)
