"""Steps and signals on each SQL store: in one request, under the claim's fence, and in races of several clients."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from harnesses.sql_clients import LONG, backend_of, claim, claimed, meet

from jobboard import JobBoard, JobState
from jobboard.backends.edge_rows import SignalOutcome, StepRow
from jobboard.backends.rows import Abandonment, Consumption, Fence, Lost, Verdict
from jobboard.testing import Harness

pytest_plugins = ("harnesses.sql_stores",)


@pytest.fixture
def board(harness: Harness) -> JobBoard:
    return harness.board()


#: How often two clients meet in a race.
RACES = 150


def step(number: int, result: bytes = b"result") -> StepRow:
    return StepRow(number, f"step {number}", result)


def contents(steps: list[StepRow]) -> list[tuple[int, str, bytes]]:
    return [(found.number, found.name, found.result) for found in steps]


def test_steps_are_there_in_their_order_and_a_repeat_is_one(board: JobBoard) -> None:
    backend = backend_of(board)
    fence, other = claimed(backend), claimed(backend)
    for number in (0, 1, 2, 2, 3):
        assert backend.steps.save(fence, step(number)) is Verdict.DONE
    assert backend.steps.save(other, step(0, b"\0\xff%s:'")) is Verdict.DONE
    now = backend.now()
    loaded = backend.steps.load(fence.uuid, 0, 100)
    assert contents(loaded) == [(number, f"step {number}", b"result") for number in range(4)]
    assert all(abs(found.at - now) < 60 for found in loaded)
    assert contents(backend.steps.load(fence.uuid, 1, 2)) == [(1, "step 1", b"result"), (2, "step 2", b"result")]
    assert backend.steps.load(fence.uuid, 4, 2) == []
    assert contents(backend.steps.load(other.uuid, 0, 9)) == [(0, "step 0", b"\0\xff%s:'")]
    assert backend.jobs.cancel([fence.uuid])
    assert backend.steps.save(fence, step(4)) is Verdict.CANCEL_ASKED
    assert len(backend.steps.load(fence.uuid, 0, 100)) == 5


def _expire(backend: Any, fence: Fence) -> None:
    backend.jobs.release(fence.uuid, fence.token, "stuck")


def _claim_anew(backend: Any, fence: Fence) -> None:
    _expire(backend, fence)
    claim(backend, fence.uuid, "bob")


def _consume(backend: Any, fence: Fence) -> None:
    backend.jobs.consume([Consumption(fence, None, LONG)])


_ENDS: Mapping[str, tuple[Callable[[Any, Fence], None], Lost]] = {
    "released": (_expire, Lost(JobState.UNCLAIMED)),
    "claimed anew": (_claim_anew, Lost(JobState.CLAIMED, "bob")),
    "consumed": (_consume, Lost(JobState.COMPLETE)),
}


@pytest.mark.parametrize("end", _ENDS)
def test_a_late_owner_writes_no_step(board: JobBoard, end: str) -> None:
    backend, (end_it, answer) = backend_of(board), _ENDS[end]
    fence = claimed(backend)
    backend.steps.save(fence, step(0))
    end_it(backend, fence)
    for number in (0, 1):
        assert backend.steps.save(fence, step(number, b"late")) == answer
    assert contents(backend.steps.load(fence.uuid, 0, 9)) == [(0, "step 0", b"result")]
    for stranger in (
        Fence(fence.uuid, "mallory", fence.token),
        Fence(fence.uuid, fence.who, 2**64),
        Fence(str(uuid.uuid4()), fence.who, fence.token),
    ):
        assert isinstance(backend.steps.save(stranger, step(1)), (Lost, Verdict))
    assert len(backend.steps.load(fence.uuid, 0, 9)) == 1


def test_a_step_and_the_end_of_its_claim_are_in_one_order(harness: Harness, board: JobBoard) -> None:
    """A step that is saved was saved before the next owner began, who finds it; one that is refused is not there."""
    owner, operator = backend_of(board), backend_of(harness.board(board.name))
    saved = 0
    for race in range(RACES):
        fence = claimed(owner)

        def take_over(job: str = fence.uuid, token: int = fence.token) -> list[StepRow]:
            operator.jobs.release(job, token, "stuck")
            claim(operator, job, "bob")
            return list(operator.steps.load(job, 0, 9))

        answer, found = meet(race, lambda fence=fence: owner.steps.save(fence, step(0)), take_over)
        assert contents(found) == ([(0, "step 0", b"result")] if answer is Verdict.DONE else [])
        assert contents(owner.steps.load(fence.uuid, 0, 9)) == contents(found)
        saved += answer is Verdict.DONE
    assert board.audit() == []
    assert 0 < saved < RACES


def test_a_signal_meets_the_beginning_of_the_wait_for_it(harness: Harness, board: JobBoard) -> None:
    """Whichever comes first, the job is back on the board, and the signal is kept once."""
    owner, sender = backend_of(board), backend_of(harness.board(board.name))
    for race in range(RACES):
        fence = claimed(owner)
        answers, outcome = meet(
            race,
            lambda fence=fence: owner.jobs.abandon([Abandonment(fence, counted=False, signal="approved")]),
            lambda fence=fence: sender.steps.signal(fence.uuid, "approved", b"yes"),
        )
        assert (answers, outcome) == ([Verdict.DONE], SignalOutcome.DONE)
        [row] = owner.jobs.read([fence.uuid])
        assert (row.state, row.ties is None or row.ties.signal is None) == (JobState.UNCLAIMED, True)
        assert [found.value for found in owner.steps.signals(fence.uuid)] == [b"yes"]
        claim(owner, fence.uuid, "bob")
    assert board.audit() == []


def test_two_senders_of_one_signal_and_the_wait_meet(harness: Harness, board: JobBoard) -> None:
    owner, ann, bob = (backend_of(harness.board(board.name)) for _ in range(3))
    for race in range(RACES // 3):
        fence = claimed(owner)
        answers = meet(
            race,
            lambda fence=fence: ann.steps.signal(fence.uuid, "approved", b"ann"),
            lambda fence=fence: bob.steps.signal(fence.uuid, "approved", b"bob"),
            lambda fence=fence: owner.jobs.abandon([Abandonment(fence, counted=False, signal="approved")]),
        )
        assert sorted(answers[:2], key=str) == [SignalOutcome.DONE, SignalOutcome.REPEATED]
        first = b"ann" if answers[0] is SignalOutcome.DONE else b"bob"
        assert [found.value for found in owner.steps.signals(fence.uuid)] == [first]
        assert owner.jobs.read([fence.uuid])[0].state is JobState.UNCLAIMED
    assert board.audit() == []


def test_a_signal_breaks_no_claim(harness: Harness, board: JobBoard) -> None:
    """Its owner extends, saves steps and ends the claim while others send signals."""
    owner, sender = backend_of(board), backend_of(harness.board(board.name))
    fence = claimed(owner)
    for race in range(RACES // 3):
        answers = meet(
            race,
            lambda race=race: owner.steps.save(fence, step(race)),
            lambda race=race: sender.steps.signal(fence.uuid, f"signal {race}", b""),
        )
        assert answers == [Verdict.DONE, SignalOutcome.DONE]
    assert len(owner.steps.signals(fence.uuid)) == RACES // 3
    assert owner.jobs.consume([Consumption(fence, None, LONG)]) == [Verdict.DONE]
    assert sender.steps.signal(fence.uuid, "late", b"") is SignalOutcome.MISSING
