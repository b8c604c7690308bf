"""Lanes on etcd, where a step reads its lanes before it is written: another client changes them between.

Each case ends with an audit that finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from harnesses.etcd_harness import EtcdHarness
from servers.etcd_servers import EtcdServer

from jobboard import Job, JobBoard, JobState
from jobboard.backends.kv.lanes import Lane
from jobboard.backends.rows import CancelOutcome, Ties
from jobboard.testing import Harness, eventually
from jobboard.testing.contract.case import LONG, SHORT, drain, uuids_of
from jobboard.testing.contract.lanes import post_tied, states_of

BLOCKED, CLAIMED, COMPLETE, DELAYED, TRASHED, UNCLAIMED = (
    JobState[name] for name in ("BLOCKED", "CLAIMED", "COMPLETE", "DELAYED", "TRASHED", "UNCLAIMED")
)

STORES: dict[str, tuple[Any, Any]] = {
    "etcd": (EtcdServer, EtcdHarness),
}


@pytest.fixture(scope="module", params=STORES)
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    server_class, harness_class = STORES[request.param]
    with server_class() as server, harness_class(server.uri) as harness:
        yield harness


@pytest.fixture
def board(harness: Harness) -> Iterator[JobBoard]:
    board = harness.board()
    yield board
    assert board.audit() == []


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], list[object]]:
    """Return a function that does something once, after the next step has read its lane and before it is written."""
    follow = Lane.follow

    def arrange(change: Callable[[], object]) -> list[object]:
        pending, done = [change], list[object]()

        def after_another(lane: Lane[Any], row: Any) -> Any:
            if pending:
                done.append(pending.pop()())
            return follow(lane, row)

        monkeypatch.setattr(Lane, "follow", after_another)
        return done

    return arrange


Between = Callable[[Callable[[], object]], list[object]]


def test_a_post_beside_the_end_of_the_holder_is_admitted(board: JobBoard, harness: Harness, between: Between) -> None:
    other = harness.board(board.name)
    holder = post_tied(board)
    (claimed,) = board.claim_next("alice", expiry=LONG)
    posted = between(lambda: post_tied(other))
    board.consume(claimed, "alice")
    assert states_of(board, holder, *posted) == [COMPLETE, UNCLAIMED]  # type: ignore[arg-type]


def test_the_end_of_the_holder_beside_a_post_frees_the_slot_for_it(
    board: JobBoard, harness: Harness, between: Between
) -> None:
    other = harness.board(board.name)
    post_tied(board)
    (claimed,) = other.claim_next("alice", expiry=LONG)
    between(lambda: other.consume(claimed, "alice"))
    assert post_tied(board).record.state is UNCLAIMED


def test_of_two_posts_into_a_free_lane_one_waits(board: JobBoard, harness: Harness, between: Between) -> None:
    other = harness.board(board.name)
    first = between(lambda: post_tied(other))
    second = post_tied(board)
    assert states_of(board, *first, second) == [UNCLAIMED, BLOCKED]  # type: ignore[arg-type]


def test_of_the_next_job_and_a_better_one_that_is_posted_beside_an_end_one_is_admitted(
    board: JobBoard, harness: Harness, between: Between
) -> None:
    other = harness.board(board.name)
    _, waiting = post_tied(board), post_tied(board)
    (claimed,) = board.claim_next("alice", expiry=LONG)
    better = between(lambda: post_tied(other, priority="high"))
    board.consume(claimed, "alice")
    assert sorted(states_of(board, waiting, *better)) == [BLOCKED, UNCLAIMED]  # type: ignore[arg-type]


@pytest.mark.parametrize("change", ["cancel", "trash", "reprioritize"])
def test_the_next_job_changes_beside_an_end(board: JobBoard, harness: Harness, between: Between, change: str) -> None:
    other = harness.board(board.name)
    _, second, third = (post_tied(board) for _ in range(3))
    (claimed,) = board.claim_next("alice", expiry=LONG)
    changes: dict[str, Callable[[], object]] = {
        "cancel": lambda: other.cancel(second),
        "trash": lambda: other.trash(second, by="an operator"),
        "reprioritize": lambda: other.reprioritize(second, "low"),
    }
    between(changes[change])
    board.consume(claimed, "alice")
    assert uuids_of(drain(board)) == uuids_of([third, second][: 2 if change == "reprioritize" else 1])


def test_a_whole_lane_is_cancelled_in_one_call(board: JobBoard) -> None:
    jobs = [post_tied(board) for _ in range(60)]
    assert set(board._backend.jobs.cancel([job.uuid for job in jobs])) == {CancelOutcome.CANCELLED}
    assert board.job_count == 0
    assert post_tied(board).record.state is UNCLAIMED


def test_a_whole_lane_is_trashed_and_restored(board: JobBoard) -> None:
    jobs = [post_tied(board) for _ in range(5)]
    for job in jobs:
        board.trash(job, by="an operator")
    assert board.stats().trashed == 5
    board._backend.jobs.restore([job.uuid for job in jobs])
    assert sorted(states_of(board, *jobs)) == sorted([BLOCKED] * 4 + [UNCLAIMED])
    assert set(uuids_of(drain(board))) == set(uuids_of(jobs))


def test_many_delayed_jobs_of_a_lane_become_due_at_once(board: JobBoard) -> None:
    jobs = [post_tied(board, delay=SHORT) for _ in range(10)]
    eventually(lambda: DELAYED not in states_of(board, *jobs))
    assert sorted(states_of(board, *jobs)) == sorted([BLOCKED] * 9 + [UNCLAIMED])
    assert set(uuids_of(drain(board))) == set(uuids_of(jobs))


def post_batch(board: JobBoard, *jobs: dict[str, Any]) -> list[Job]:
    """Post jobs of one lane in one call."""
    new = []
    for job in jobs:
        row, _ = board._new_job("resize", None, None, job.get("priority", "normal"), job.get("key"),
                                job.get("if_exists", "raise"), None, None, None, None)  # fmt: skip
        row.ties = None if job.get("untied") else Ties("tenant:1")
        new.append(row)
    return [board.get(posted.row.uuid) for posted in board._backend.jobs.post(new)]


def test_of_a_batch_of_a_lane_one_job_can_be_claimed(board: JobBoard) -> None:
    jobs = post_batch(board, *[{} for _ in range(20)], {"priority": "high"})
    assert states_of(board, *jobs) == [UNCLAIMED, *[BLOCKED] * 20]
    assert uuids_of(drain(board)) == uuids_of([jobs[0], jobs[-1], *jobs[1:-1]])


def test_a_batch_replaces_one_holder_after_the_other(board: JobBoard) -> None:
    first, second, third = (post_tied(board, key=key) for key in "abc")
    again = [{"key": key, "if_exists": "replace"} for key in "ab"]
    assert post_batch(board, *again, {}, {"untied": True})[:2] == [first, second]
    assert states_of(board, first, second, third) == [BLOCKED, BLOCKED, UNCLAIMED]


def test_a_replaced_job_that_is_still_the_best_keeps_the_slot(board: JobBoard) -> None:
    first, second = post_tied(board, key="a"), post_tied(board)
    assert post_batch(board, {"key": "a", "if_exists": "replace", "priority": "high"}) == [first]
    assert states_of(board, first, second) == [UNCLAIMED, BLOCKED]
