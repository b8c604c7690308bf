"""What the memory backend remembers, so that a repeated request has the effect of once."""

from __future__ import annotations

import math

from helpers.memory_seam import HandClock, backend, claim_next, clock, consume, hold_of, post, posting, state_of

from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.memory import MemoryBackend
from jobboard.backends.rows import (
    Abandonment,
    CancelOutcome,
    ClaimRequest,
    EntityRow,
    Fence,
    IfExists,
    Lost,
    PostOutcome,
    Trashing,
    TrashOutcome,
    Verdict,
)
from jobboard.states import LIVE, JobState

__all__ = ["backend", "clock"]


def test_a_consumed_job_is_shown_remembered_and_forgotten_in_turn(backend: MemoryBackend, clock: HandClock) -> None:
    new = posting()
    backend.jobs.post([new])
    held = claim_next(backend)
    consume(backend, held, retention=10.0)
    clock.time += 9.9
    assert state_of(backend, held[0]) is JobState.COMPLETE
    clock.time += 0.1
    assert state_of(backend, held[0]) is None
    assert backend.jobs.page([JobState.COMPLETE], None, None, 9).rows == []
    assert backend.jobs.history(new.uuid) == []
    assert backend.jobs.claim(new.uuid, ClaimRequest("bob", "b", 30.0)) is None
    clock.time += RETRY_WINDOW - 0.1
    backend.maintenance.tidy(9)
    assert consume(backend, held) == [Verdict.REPEATED]
    assert backend.jobs.post([new])[0].outcome is PostOutcome.SAME
    clock.time += 0.1
    backend.maintenance.tidy(9)
    assert consume(backend, held) == [Verdict.LOST]
    assert backend.jobs.post([new])[0].outcome is PostOutcome.POSTED
    (again,) = claim_next(backend)
    assert (again.uuid, again.token > held[0].token) == (new.uuid, True)
    assert consume(backend, held) == [Lost(JobState.CLAIMED, "alice")]


def test_a_cancel_is_remembered_for_a_while(backend: MemoryBackend, clock: HandClock) -> None:
    job = post(backend, delay=60.0, key="k")
    assert backend.jobs.cancel([job.uuid, job.uuid]) == [CancelOutcome.CANCELLED, CancelOutcome.REPEATED]
    assert (state_of(backend, job), backend.jobs.find("resize", "k")) == (None, None)
    clock.time += RETRY_WINDOW
    backend.maintenance.tidy(9)
    assert backend.jobs.cancel([job.uuid]) == [CancelOutcome.MISSING]


def test_a_replacement_is_known_even_when_the_job_is_gone(backend: MemoryBackend) -> None:
    job = post(backend, key="k")
    new = posting(key="k", if_exists=IfExists.REPLACE, body=b"new")
    assert backend.jobs.post([new])[0].outcome is PostOutcome.REPLACED
    (held,) = claim_next(backend)
    for _ in range(2):
        (again,) = backend.jobs.post([new])
        assert (again.outcome, again.row.uuid, again.row.body) == (PostOutcome.SAME, job.uuid, b"new")
        consume(backend, [held], retention=0.0)
    assert backend.jobs.count() == 0
    assert backend.jobs.read([new.uuid]) == [None]


def test_an_end_is_repeated_only_by_whom_it_was_made(backend: MemoryBackend) -> None:
    for end, name in ((Abandonment, "abandon"), (Trashing, "trash")):
        job = post(backend, name)
        (held,) = claim_next(backend, {name})
        mine, strangers = hold_of(held), Fence(job.uuid, "bob", held.token)
        send = getattr(backend.jobs, name)

        def ends(fence: Fence, end: type = end) -> list[object]:
            return [end(fence) if end is Abandonment else end(fence.uuid, fence)]

        assert send(ends(mine)) == [Verdict.DONE]
        assert send(ends(mine)) == [Verdict.REPEATED]
        assert send(ends(strangers)) != [Verdict.REPEATED]


def test_an_operators_trashing_is_not_taken_for_the_owners(backend: MemoryBackend) -> None:
    job = post(backend)
    (held,) = claim_next(backend)
    assert backend.jobs.trash([Trashing(job.uuid, None, by="an operator")]) == [Verdict.DONE]
    assert backend.jobs.trash([Trashing(job.uuid, hold_of(held))]) == [Lost(JobState.TRASHED)]
    assert backend.jobs.trash([Trashing(job.uuid, None, by="an operator")]) == [Verdict.REPEATED]


def test_a_claim_with_the_same_id_is_one_claim(backend: MemoryBackend) -> None:
    job, claim = post(backend), ClaimRequest("alice", "c", 30.0)
    first, second = backend.jobs.claim(job.uuid, claim), backend.jobs.claim(job.uuid, claim)
    assert first is not None
    assert first == second
    assert (first.claim_id, first.attempts, first.token) == ("c", 1, 1)
    assert [row.uuid for row in backend.jobs.claimed_under("c")] == [job.uuid]


def test_a_batch_with_one_taken_key_leaves_no_trace(backend: MemoryBackend) -> None:
    held = post(backend, key="claimed")
    claim_next(backend)
    post(backend, key="waiting", body=b"old")
    before = [line for part in LIVE for line in backend.jobs.page([part], None, None, 9).rows]
    outcomes = backend.jobs.post(
        [
            posting(key="new"),
            posting(key="waiting", if_exists=IfExists.REPLACE, body=b"new"),
            posting(key="claimed", if_exists=IfExists.REPLACE),
        ]
    )
    assert outcomes[2].outcome is PostOutcome.TAKEN
    assert outcomes[2].row.uuid == held.uuid
    assert [line for part in LIVE for line in backend.jobs.page([part], None, None, 9).rows] == before
    assert backend.maintenance.audit(False) == []


def test_a_job_restored_before_its_delay_was_over_stays_claimable(backend: MemoryBackend, clock: HandClock) -> None:
    job = post(backend, delay=60.0)
    backend.jobs.trash([Trashing(job.uuid, None)])
    assert backend.jobs.restore([job.uuid, job.uuid]) == [TrashOutcome.DONE, TrashOutcome.REPEATED]
    (held,) = claim_next(backend)
    backend.jobs.abandon([Abandonment(hold_of(held))])
    assert state_of(backend, job) is JobState.UNCLAIMED


def test_entities_are_forgotten_a_day_after_they_went(backend: MemoryBackend, clock: HandClock) -> None:
    backend.entities.put(EntityRow("conductor", "a", b"", 60.0))
    backend.entities.put(EntityRow("conductor", "b", b"", math.inf))
    clock.time += 60.0 + 86_399.0
    assert backend.maintenance.tidy(9) == 0
    assert [entity.expires_in < 0 for entity in backend.entities.all()] == [True, False]
    clock.time += 1.0
    assert backend.maintenance.tidy(9) == 1
    assert [entity.name for entity in backend.entities.all()] == ["b"]
