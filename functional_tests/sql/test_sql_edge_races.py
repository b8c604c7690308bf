"""Edges on each SQL store while two clients meet: whoever comes first, no child is lost, and none runs too early."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from harnesses.fixtures import a_board
from harnesses.sql_clients import backend_of, claim, claimed, consume, meet, post, post_after, state_of

from jobboard import JobBoard, JobState
from jobboard.backends.edge_rows import EdgeCounts, LinkOutcome, Outcome
from jobboard.backends.rows import Fence, NewJob, PostOutcome, Ties, Trashing, Verdict
from jobboard.testing import Harness, eventually

pytest_plugins = ("harnesses.sql_stores",)
pytestmark = pytest.mark.timeout(900)
board = a_board()

#: How often two clients meet in a race, for each of the two ways; 1,000 times take minutes.
RACES = int(os.environ.get("JOBBOARD_RACES", "40"))
#: By how much one of two waits longer for the other one, once it was the first, in seconds.
_STEP = 0.0005
_BLOCKED, _UNCLAIMED = JobState.BLOCKED, JobState.UNCLAIMED


def _trash(backend: Any, fence: Fence) -> list[Any]:
    verdicts: list[Any] = backend.jobs.trash([Trashing(fence.uuid, fence, "broken")])
    return verdicts


def _meet(race: int, wait: float, end: Callable[[], Any], other: Callable[[], Any]) -> list[Any]:
    """Let two clients meet; the second one waits first, or if that is negative the first one."""

    def after(seconds: float, call: Callable[[], Any]) -> Any:
        time.sleep(max(0.0, seconds))
        return call()

    return meet(race, lambda: after(-wait, end), lambda: after(wait, other))


@pytest.mark.parametrize(
    ("end", "outcome", "state"), [(consume, Outcome.DONE, _UNCLAIMED), (_trash, Outcome.FAILED, _BLOCKED)]
)
def test_a_post_behind_a_job_meets_its_end(
    harness: Harness, board: JobBoard, end: Callable[..., Any], outcome: Outcome, state: JobState
) -> None:
    """The end sees the child, or the child sees the end."""
    owner, poster = backend_of(board), backend_of(harness.board(board.name))
    waited, wait = 0, 0.0
    for race in range(2 * RACES if end is consume else RACES // 2):
        fence = claimed(owner)
        verdicts, [posted] = _meet(
            race,
            wait,
            lambda fence=fence: end(owner, fence),
            lambda fence=fence: post_after(poster, fence.uuid),
        )
        assert (verdicts, posted.outcome) == ([Verdict.DONE], PostOutcome.POSTED)
        is_waiting = posted.row.state is _BLOCKED
        waited += is_waiting
        # Whoever came first waits longer, so that they meet again and again.
        if end is consume:
            wait += _STEP if is_waiting else -_STEP
        assert state_of(owner, posted.row.uuid) is state
        [edge] = owner.edges.parents(posted.row.uuid, None, 9).edges
        assert (edge.outcome, edge.result) == (outcome, b"result" if outcome is Outcome.DONE else None)
        owner.jobs.cancel([posted.row.uuid])
    # A child of a parent that failed is BLOCKED either way.
    assert end is _trash or 0 < waited < 2 * RACES
    assert board.audit() == []


def test_one_more_parent_meets_the_end_of_the_last_one(harness: Harness, board: JobBoard) -> None:
    """It counts, or it is refused."""
    owner, linker = backend_of(board), backend_of(harness.board(board.name))
    linked, wait = 0, 0.0
    for race in range(RACES):
        fence, late = claimed(owner), post(owner)
        [posted] = post_after(owner, fence.uuid)
        child = posted.row.uuid
        verdicts, answer = _meet(
            race,
            wait,
            lambda fence=fence: consume(owner, fence),
            lambda child=child, late=late: linker.edges.link(child, [late]),
        )
        assert (verdicts, answer in (LinkOutcome.DONE, LinkOutcome.STARTED)) == ([Verdict.DONE], True)
        is_linked = answer is LinkOutcome.DONE
        linked += is_linked
        wait += _STEP if is_linked else -_STEP
        assert state_of(owner, child) is (_BLOCKED if is_linked else _UNCLAIMED)
        assert owner.edges.counts([child]) == [EdgeCounts(open=int(is_linked), done=1)]
        owner.jobs.cancel([child, late])
    assert 0 < linked < RACES
    assert board.audit() == []


def test_parents_of_one_job_that_end_at_once(harness: Harness, board: JobBoard) -> None:
    clients = [backend_of(each) for each in (board, harness.board(board.name), harness.board(board.name))]
    for race in range(RACES // 3):
        fences = [claimed(clients[0]) for _ in clients]
        [posted] = post_after(clients[0], *(fence.uuid for fence in fences))
        ends = [lambda each=each: consume(*each) for each in zip(clients, fences, strict=True)]
        assert meet(race, *ends) == [[Verdict.DONE]] * 3
        # On a busy machine a mark whose child was locked for long is seen to a moment later.
        eventually(lambda uuid=posted.row.uuid: state_of(clients[0], uuid) is _UNCLAIMED)
        child = claim(clients[0], posted.row.uuid)
        assert child.attempts == 1
        assert clients[0].edges.counts([child.uuid]) == [EdgeCounts(done=3)]
        consume(clients[0], Fence(child.uuid, "ann", child.token))
    assert board.audit() == []


def test_a_post_into_a_full_lane_meets_the_end_that_frees_its_slot(harness: Harness, board: JobBoard) -> None:
    board.limits.set(lane="tenant:*", running=1)
    owner, poster = backend_of(board), backend_of(harness.board(board.name))
    for race in range(2 * RACES):
        fence = claimed(owner, ties=Ties(f"tenant:{race}"))
        new = NewJob(str(uuid.uuid4()), "order", 3, b"body", ties=Ties(f"tenant:{race}"))
        verdicts, [posted] = meet(
            race,
            lambda fence=fence: consume(owner, fence),
            lambda new=new: poster.jobs.post([new]),
        )
        assert (verdicts, posted.outcome) == ([Verdict.DONE], PostOutcome.POSTED)
        assert state_of(owner, new.uuid) is _UNCLAIMED
        owner.jobs.cancel([new.uuid])
    assert board.audit() == []
