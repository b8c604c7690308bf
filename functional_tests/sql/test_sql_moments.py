"""Moments on each SQL store: of waits for signals, of jobs that must begin, of replacements, and of keys."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from harnesses.sql_clients import LONG, backend_of, claim, claimed, post

from jobboard import JobBoard, JobState
from jobboard.backends.reasons import MISSED
from jobboard.backends.rows import (
    Abandonment,
    Consumption,
    Fence,
    IfExists,
    JobRow,
    NewJob,
    PostOutcome,
    Ties,
    Trashing,
    TrashOutcome,
    Verdict,
)
from jobboard.testing import Harness, eventually

pytest_plugins = ("harnesses.sql_stores",)


@pytest.fixture
def board(harness: Harness) -> JobBoard:
    return harness.board()


SOON = 0.4


def read(backend: Any, job: str) -> JobRow:
    [row] = backend.jobs.read([job])
    assert isinstance(row, JobRow)
    return row


def state_of(backend: Any, job: str) -> JobState:
    return read(backend, job).state


def wait_for(backend: Any, fence: Fence, signal: str = "approved", **options: Any) -> None:
    assert backend.jobs.abandon([Abandonment(fence, counted=False, signal=signal, **options)]) == [Verdict.DONE]


# -- waits for signals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lane", [None, "tenant:7"])
def test_a_wait_ends_at_its_moment(board: JobBoard, lane: str | None) -> None:
    backend = backend_of(board)
    ties = None if lane is None else Ties(lane)
    timed, endless = claimed(backend, ties=ties), claimed(backend, ties=ties)
    wait_for(backend, timed, delay=SOON)
    wait_for(backend, endless)
    row = read(backend, timed.uuid)
    assert (row.state, row.joined_lane, row.attempts) == (JobState.BLOCKED, None, 0)
    assert (row.run_at or 0.0) == pytest.approx(row.last_modified + SOON, abs=1e-3)
    eventually(lambda: state_of(backend, timed.uuid) is JobState.UNCLAIMED)
    assert (read(backend, timed.uuid).run_at, state_of(backend, endless.uuid)) == (None, JobState.BLOCKED)
    claim(backend, timed.uuid, "bob")
    assert board.audit() == []


def test_a_wait_for_another_signal_goes_on(board: JobBoard) -> None:
    backend = backend_of(board)
    fence = claimed(backend)
    backend.steps.signal(fence.uuid, "early", b"1")
    wait_for(backend, fence, "approved")
    backend.steps.signal(fence.uuid, "late", b"2")
    assert state_of(backend, fence.uuid) is JobState.BLOCKED
    backend.steps.signal(fence.uuid, "approved", b"3", "ada")
    assert state_of(backend, fence.uuid) is JobState.UNCLAIMED
    [line] = [line for line in backend.jobs.history(fence.uuid) if line.reason == "approved"]
    assert (line.kind, line.who) == ("SIGNALLED", "ada")
    again = Fence(fence.uuid, "ann", claim(backend, fence.uuid).token)
    wait_for(backend, again, "early")
    assert state_of(backend, fence.uuid) is JobState.UNCLAIMED


def test_who_waits_takes_no_slot_of_its_lane(board: JobBoard) -> None:
    backend = backend_of(board)
    board.limits.set(lane="tenant:*", running=1)
    first, second = post(backend, ties=Ties("tenant:7")), post(backend, ties=Ties("tenant:7"))
    fence = Fence(first, "ann", claim(backend, first).token)
    assert state_of(backend, second) is JobState.BLOCKED
    wait_for(backend, fence)
    assert state_of(backend, second) is JobState.UNCLAIMED
    backend.steps.signal(first, "approved", b"")
    assert (state_of(backend, first), read(backend, first).joined_lane) == (JobState.BLOCKED, "tenant:7")
    other = claim(backend, second)
    backend.jobs.consume([Consumption(Fence(second, "ann", other.token), None, LONG)])
    assert state_of(backend, first) is JobState.UNCLAIMED
    assert board.audit() == []


# -- jobs that must begin ----------------------------------------------------------------------------------------------


def _waits_for_lane(backend: Any) -> dict[str, Any]:
    post(backend, ties=Ties("tenant:7"))
    return {"ties": Ties("tenant:7", start_by=backend.now() + SOON)}


_WAYS: Mapping[str, Callable[[Any], dict[str, Any]]] = {
    "claimable": lambda backend: {"ties": Ties(start_by=backend.now() + SOON)},
    "delayed": lambda backend: {"ties": Ties(start_by=backend.now() + SOON), "delay": LONG},
    "of a lane": _waits_for_lane,
}


@pytest.mark.parametrize("way", _WAYS)
def test_a_job_that_has_not_begun_by_its_moment_is_trashed(board: JobBoard, way: str) -> None:
    backend = backend_of(board)
    board.limits.set(lane="tenant:*", running=1)
    job = post(backend, **_WAYS[way](backend))
    eventually(lambda: state_of(backend, job) is JobState.TRASHED)
    row = read(backend, job)
    assert (row.reason, row.last_error) == (MISSED, MISSED)
    assert board.audit() == []


def test_a_job_that_has_begun_has_no_such_moment(board: JobBoard) -> None:
    backend = backend_of(board)
    job = post(backend, ties=Ties(start_by=backend.now() + SOON))
    fence = Fence(job, "ann", claim(backend, job).token)
    late = post(backend, ties=Ties(start_by=backend.now() + SOON))
    eventually(lambda: state_of(backend, late) is JobState.TRASHED)
    assert state_of(backend, job) is JobState.CLAIMED
    backend.jobs.abandon([Abandonment(fence)])
    assert state_of(backend, job) is JobState.UNCLAIMED
    assert board.audit() == []


# -- replacements ------------------------------------------------------------------------------------------------------


def test_replacements_delay_a_job_until_its_latest_moment(board: JobBoard) -> None:
    backend = backend_of(board)

    def post_again(delay: float, max_delay: float | None) -> JobRow:
        new = NewJob(str(uuid.uuid4()), "index", 3, b"", "k", IfExists.REPLACE, delay=delay, max_delay=max_delay)
        [posted] = backend.jobs.post([new])
        return read(backend, posted.row.uuid)

    first = post_again(50.0, 60.0)
    latest = first.created_on + 60.0
    assert first.run_at == pytest.approx(first.created_on + 50.0, abs=1e-3)
    for max_delay in (60.0, None, 500.0):
        row = post_again(100.0, max_delay)
        assert (row.uuid, row.run_at) == (first.uuid, pytest.approx(latest, abs=1e-3))
    assert post_again(10.0, None).run_at < latest


# -- keys --------------------------------------------------------------------------------------------------------------


def post_keyed(backend: Any, if_exists: str = "keep", key: str = "k", **options: Any) -> tuple[PostOutcome, str]:
    new = NewJob(str(uuid.uuid4()), "report", 3, b"body", key, IfExists(if_exists), **options)
    [posted] = backend.jobs.post([new])
    return posted.outcome, posted.row.uuid


def _consume(backend: Any, job: str) -> None:
    token = claim(backend, job).token
    assert backend.jobs.consume([Consumption(Fence(job, "ann", token), None, 0.0)]) == [Verdict.DONE]


def _consume_with_another(backend: Any, job: str) -> None:
    fences = [claimed(backend), Fence(job, "ann", claim(backend, job).token), claimed(backend, ties=Ties("lane"))]
    assert backend.jobs.consume([Consumption(fence, None, 0.0) for fence in fences]) == [Verdict.DONE] * 3


def _trash(backend: Any, job: str) -> None:
    backend.jobs.trash([Trashing(job, None, "broken")])


_ENDS: Mapping[str, Callable[[Any, str], None]] = {
    "consumed": _consume,
    "consumed in a batch": _consume_with_another,
    "trashed": _trash,
}


@pytest.mark.parametrize("end", _ENDS)
def test_a_key_stays_taken_after_the_end(board: JobBoard, end: str) -> None:
    backend = backend_of(board)
    outcome, job = post_keyed(backend, key_for=LONG)
    _, other = post_keyed(backend, key="other", key_for=SOON)
    assert outcome is PostOutcome.POSTED
    for each in (job, other):
        _ENDS[end](backend, each)
    assert post_keyed(backend) == (PostOutcome.KEPT, job)
    for if_exists in ("raise", "replace"):
        assert post_keyed(backend, if_exists, key_for=LONG) == (PostOutcome.TAKEN, job)
    eventually(lambda: post_keyed(backend, key="other")[0] is PostOutcome.POSTED)
    assert post_keyed(backend) == (PostOutcome.KEPT, job)
    many = [NewJob(str(uuid.uuid4()), "report", 3, b"", key, IfExists.KEEP) for key in ("new", "k")]
    assert [posted.outcome for posted in backend.jobs.post(many)] == [PostOutcome.POSTED, PostOutcome.KEPT]
    assert board.audit() == []
    backend.maintenance.tidy(100)
    assert post_keyed(backend) == (PostOutcome.KEPT, job)


def _cancel(backend: Any, job: str) -> None:
    backend.jobs.cancel([job])


def _purge(backend: Any, job: str) -> None:
    _trash(backend, job)
    assert backend.jobs.purge([job]) == [TrashOutcome.DONE]


@pytest.mark.parametrize("end", [_cancel, _purge])
def test_what_is_cancelled_or_purged_gives_its_key_back(board: JobBoard, end: Callable[[Any, str], None]) -> None:
    backend = backend_of(board)
    _, job = post_keyed(backend, key_for=LONG)
    end(backend, job)
    outcome, new = post_keyed(backend, "raise", key_for=LONG)
    assert (outcome, new != job) == (PostOutcome.POSTED, True)
    _consume(backend, new)
    assert post_keyed(backend) == (PostOutcome.KEPT, new)
    assert board.audit() == []


def test_the_last_posting_says_for_how_long_a_key_is_taken(board: JobBoard) -> None:
    backend = backend_of(board)
    _, job = post_keyed(backend, key_for=LONG)
    assert post_keyed(backend, "replace", key_for=SOON) == (PostOutcome.REPLACED, job)
    _consume(backend, job)
    eventually(lambda: post_keyed(backend)[0] is PostOutcome.POSTED)
    assert board.audit() == []
