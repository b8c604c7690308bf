"""Parents that come back from the trash: a child that was let go waits again, unless somebody has claimed it."""

from __future__ import annotations

from typing import Any

import pytest

from jobboard.backends.edge_rows import EdgeCounts, Outcome
from jobboard.backends.rows import TrashOutcome
from jobboard.board import JobBoard, client_of
from jobboard.events import EventKind, JobEvent
from jobboard.job import Job
from jobboard.testing.contract.case import LONG, claim_one, drain, needs, uuids_of
from jobboard.testing.contract.edge_case import (
    BLOCKED,
    CLAIMED,
    COMPLETE,
    DELAYED,
    TRASHED,
    UNCLAIMED,
    EdgeCase,
    counts_of,
    end,
    lines_of,
    of_edges,
    outcomes_of,
    post_after,
    results_of,
)
from jobboard.testing.contract.lane_case import states_of
from jobboard.testing.deadline import eventually
from jobboard.types import IfFailedName

#: More than the children that one step of any store tells of a restore.
_MANY = 120


def _let_go(board: JobBoard, *parents: Job, count: int = 3, **options: Any) -> list[Job]:
    """Post children that run although their parents are in the trash."""
    children = [post_after(board, *parents, if_failed="run", **options) for _ in range(count)]
    for parent in parents:
        board.trash(parent, by="an operator")
    return children


def _restore(board: JobBoard, *jobs: Job) -> None:
    """Restore jobs in one request."""
    client = client_of(board)
    outcomes = client.call(client.backend.jobs.restore, [job.uuid for job in jobs], None, None)
    assert outcomes == [TrashOutcome.DONE] * len(jobs)


class RestoredParentCases(EdgeCase):
    @of_edges
    def test_what_nobody_has_claimed_waits_again(self, board: JobBoard, other: JobBoard) -> None:
        parent = board.post("resize")
        children = _let_go(board, parent)
        assert states_of(other, *children) == [UNCLAIMED] * 3
        board.restore(parent.uuid)
        assert states_of(other, *children) == [BLOCKED] * 3
        assert [counts_of(other, child) for child in children] == [EdgeCounts(open=1)] * 3
        assert uuids_of(other.claim_next("alice", limit=5)) == [parent.uuid]
        other.consume(parent, "alice", 7)
        assert states_of(board, *children) == [UNCLAIMED] * 3
        assert [results_of(board, child) for child in children] == [{parent.uuid: 7}] * 3
        assert [lines_of(board, child, "BLOCKED") for child in children] == [1] * 3
        assert [lines_of(board, child, "RESOLVED") for child in children] == [2] * 3
        assert uuids_of(drain(board)) == uuids_of(children)

    @of_edges
    def test_each_restore_and_each_failure_counts(self, board: JobBoard) -> None:
        parent = board.post("resize")
        children = _let_go(board, parent)
        for _ in range(3):
            board.restore(parent.uuid)
            assert states_of(board, *children) == [BLOCKED] * 3
            board.trash(parent, by="an operator")
            assert states_of(board, *children) == [UNCLAIMED] * 3
        board.restore(parent.uuid)
        board.cancel(parent)
        assert states_of(board, *children) == [UNCLAIMED] * 3
        assert counts_of(board, children[0]) == EdgeCounts(gone=1)

    @of_edges
    def test_one_that_was_claimed_does_not_wait_again(self, board: JobBoard) -> None:
        """It runs, has run, was given back, or is in the trash since it failed; and it knows how its parent ended."""
        parent = board.post("resize")
        running, complete, returned, failed = _let_go(board, parent, count=4)
        for child in (running, complete, returned, failed):
            board.claim(child, "alice", LONG)
        board.consume(complete, "alice")
        board.abandon(returned, "alice", counted=False)
        board.trash(failed, "alice", reason="broken")
        board.restore(parent.uuid)
        assert states_of(board, running, complete, returned, failed) == [CLAIMED, COMPLETE, UNCLAIMED, TRASHED]
        assert [outcomes_of(board, child, parent) for child in (running, returned, failed)] == [[Outcome.FAILED]] * 3
        board.restore(failed.uuid)
        assert states_of(board, failed) == [UNCLAIMED]
        board.cancel(parent)
        assert states_of(board, running, returned, failed) == [CLAIMED, UNCLAIMED, UNCLAIMED]
        assert outcomes_of(board, running, parent) == [Outcome.GONE]
        board.consume(running, "alice")

    @of_edges
    def test_one_that_is_delayed_waits_after_its_delay(self, board: JobBoard) -> None:
        parent = board.post("resize")
        children = _let_go(board, parent, delay=LONG)
        assert states_of(board, *children) == [DELAYED] * 3
        board.restore(parent.uuid)
        assert states_of(board, *children) == [DELAYED] * 3
        for child in children[:2]:
            board.run_now(child.uuid)
        assert states_of(board, *children) == [BLOCKED, BLOCKED, DELAYED]
        end(board, parent)
        assert states_of(board, *children) == [UNCLAIMED, UNCLAIMED, DELAYED]

    @of_edges
    def test_one_in_the_trash_waits_once_it_is_restored(self, board: JobBoard, other: JobBoard) -> None:
        """Before, after, or together with its parent."""
        parent = board.post("resize")
        before, together, after, late = _let_go(board, parent, count=4)
        for child in (before, together, after, late):
            board.trash(child, by="an operator")
        board.restore(before.uuid)
        assert states_of(board, before) == [UNCLAIMED]
        _restore(board, together, parent)
        board.restore(after.uuid)
        assert states_of(other, before, together, after, late) == [BLOCKED, BLOCKED, BLOCKED, TRASHED]
        end(board, parent)
        board.restore(late.uuid)
        assert states_of(other, before, together, after, late) == [UNCLAIMED] * 4

    @of_edges
    @pytest.mark.parametrize("if_failed", ["wait", "cancel"])
    def test_what_was_trashed_with_its_parent_waits_for_it_again(
        self, board: JobBoard, other: JobBoard, if_failed: IfFailedName
    ) -> None:
        """It is restored before, together with, or after its parent, and another parent ends meanwhile."""
        parent, another = board.post("resize"), board.post("resize")
        children = [post_after(board, parent, another, if_failed=if_failed) for _ in range(3)]
        before, together, after = children
        for job in (*children, parent):
            board.trash(job, by="an operator")
        board.restore(before.uuid)
        assert states_of(other, *children) == [BLOCKED, TRASHED, TRASHED]
        end(board, another)
        _restore(board, together, parent)
        board.restore(after.uuid)
        assert states_of(other, *children) == [BLOCKED] * 3
        assert other.audit() == []
        end(board, parent)
        assert states_of(other, *children) == [UNCLAIMED] * 3

    @of_edges
    def test_a_whole_family_comes_back_in_one_request(self, board: JobBoard, other: JobBoard) -> None:
        parent = board.post("resize")
        children = _let_go(board, parent)
        grandchild = post_after(board, *children, if_failed="run")
        for job in (*children, grandchild):
            board.trash(job, by="an operator")
        _restore(board, parent, *children, grandchild)
        assert states_of(other, parent, *children, grandchild) == [UNCLAIMED, *[BLOCKED] * 4]
        assert uuids_of(drain(other)) == uuids_of([parent, *children, grandchild])

    @of_edges
    def test_it_waits_for_all_parents_that_are_back(self, board: JobBoard, other: JobBoard) -> None:
        parents = [board.post("resize") for _ in range(3)]
        (child,) = _let_go(board, *parents, count=1)
        for parent in parents[:2]:
            board.restore(parent.uuid)
        assert counts_of(other, child) == EdgeCounts(open=2, failed=1)
        end(board, parents[0])
        assert states_of(other, child) == [BLOCKED]
        end(board, parents[1])
        assert states_of(other, child) == [UNCLAIMED]
        board.restore(parents[2].uuid)
        assert (states_of(other, child), counts_of(other, child)) == ([BLOCKED], EdgeCounts(open=1, done=2))
        end(board, parents[2])
        assert uuids_of(drain(other)) == [child.uuid]

    @of_edges
    @needs(sharded=False)
    def test_it_leaves_its_lane_until_its_parent_has_ended(self, board: JobBoard) -> None:
        board.limits.set(lane="tenant:42", running=1)
        parent = board.post("resize")
        first, second, third = _let_go(board, parent, lane="tenant:42")
        outside = board.post("resize", lane="tenant:42")
        assert states_of(board, first, second, third, outside) == [UNCLAIMED, BLOCKED, BLOCKED, BLOCKED]
        board.restore(parent.uuid)
        assert states_of(board, first, second, third, outside) == [BLOCKED, BLOCKED, BLOCKED, UNCLAIMED]
        end(board, parent)
        assert states_of(board, first, second, third, outside) == [BLOCKED, BLOCKED, BLOCKED, UNCLAIMED]
        assert uuids_of(drain(board)) == uuids_of([outside, first, second, third])

    @of_edges
    def test_of_many_children_each_waits_or_was_claimed(self, board: JobBoard, other: JobBoard) -> None:
        parent = board.post("resize")
        children = _let_go(board, parent, count=_MANY, name="child")
        claimed = [claim_one(other, names=["child"]) for _ in range(3)]
        board.restore(parent.uuid)
        edges = client_of(board).backend.edges
        eventually(lambda: client_of(board).call(edges.resolve, [parent.uuid]) == [])
        assert other.claim_next("alice", names=["child"]) == []
        assert sorted(states_of(other, *children)) == sorted([CLAIMED] * 3 + [BLOCKED] * (_MANY - 3))
        end(board, parent)
        eventually(lambda: BLOCKED not in states_of(other, *children))
        for job in claimed:
            other.consume(job, "alice")

    @of_edges
    def test_what_is_told_of_a_child_that_waits_again(self, board: JobBoard, other: JobBoard) -> None:
        parent = board.post("resize")
        (child,) = _let_go(board, parent, count=1)
        heard: list[JobEvent] = []
        stop = other.subscribe(heard.append, [EventKind.BLOCKED])
        try:
            board.restore(parent.uuid)
            eventually(lambda: bool(heard))
        finally:
            stop()
        assert [(event.uuid, event.reason) for event in heard] == [(child.uuid, "a parent of it was restored")]
        assert board.get(child.uuid).history[-1].reason == "a parent of it was restored"
