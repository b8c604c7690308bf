"""Parents that fail: what is in the trash may come back, what was cancelled or purged can't; no child is forgotten."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jobboard.backends.edge_rows import EdgeCounts, Outcome
from jobboard.board import JobBoard
from jobboard.events import EventKind, JobEvent
from jobboard.job import Job, Posting
from jobboard.testing.contract.case import LONG, SHORT, drain, uuids_of
from jobboard.testing.contract.edge_case import (
    BLOCKED,
    CLAIMED,
    TRASHED,
    UNCLAIMED,
    EdgeCase,
    children_of,
    counts_of,
    each_way,
    end,
    is_gone,
    lines_of,
    of_edges,
    outcomes_of,
    post_after,
    results_of,
)
from jobboard.testing.contract.lane_case import states_of
from jobboard.testing.deadline import eventually
from jobboard.types import IfFailedName

End = Callable[[JobBoard, Job], object]


def _poison(board: JobBoard, job: Job) -> None:
    board.claim(job, "alice", SHORT)
    eventually(lambda: states_of(board, job) == [TRASHED])


def _fail(board: JobBoard, job: Job) -> None:
    board.claim(job, "alice", LONG)
    board.abandon(job, "alice", reason="broken")


def _trash(board: JobBoard, job: Job) -> None:
    board.claim(job, "alice", LONG)
    board.trash(job, "alice", reason="broken")


def _give_up(board: JobBoard, job: Job) -> None:
    """Cancel a claimed job, whose owner gives way."""
    board.claim(job, "alice", LONG)
    board.cancel(job.uuid)
    board.abandon(job, "alice")


def _purge(board: JobBoard, job: Job) -> None:
    board.trash(job, by="an operator")
    board.purge(job.uuid)


#: How a job gets into the trash; it has one attempt.
FAILURES: dict[str, End] = {
    "its owner trashes it": _trash,
    "an operator trashes it": lambda board, job: board.trash(job, by="an operator"),
    "its attempts are used up": _fail,
    "its claim expires": _poison,
}
#: How it can't come back.
LOSSES: dict[str, End] = {
    "an operator cancels it": lambda board, job: board.cancel(job),
    "its owner gives way to a cancel": _give_up,
    "it is purged from the trash": _purge,
}


class FailedParentCases(EdgeCase):
    @of_edges
    @each_way
    @pytest.mark.parametrize("failure", FAILURES)
    def test_a_parent_that_gets_into_the_trash(
        self, board: JobBoard, other: JobBoard, if_failed: IfFailedName, failure: str
    ) -> None:
        parent, fine = board.post("resize", max_attempts=1), board.post("resize")
        children = [post_after(board, parent, fine, if_failed=if_failed) for _ in range(3)]
        end(board, fine)
        FAILURES[failure](board, parent)
        if if_failed == "cancel":
            assert all(is_gone(other, child) for child in children)
            assert other.job_count == 0
        else:
            assert states_of(other, *children) == [BLOCKED if if_failed == "wait" else UNCLAIMED] * 3
            assert counts_of(other, children[0]) == EdgeCounts(done=1, failed=1)
        assert [job.uuid for job in drain(board)] == (uuids_of(children) if if_failed == "run" else [])

    @of_edges
    @each_way
    def test_a_parent_that_is_in_the_trash_already(self, board: JobBoard, if_failed: IfFailedName) -> None:
        parent = board.post("resize")
        board.trash(parent, by="an operator")
        child = post_after(board, parent, if_failed=if_failed)
        assert is_gone(board, child) is (if_failed == "cancel")
        if if_failed != "cancel":
            assert states_of(board, child) == [BLOCKED if if_failed == "wait" else UNCLAIMED]
            assert outcomes_of(board, child, parent) == [Outcome.FAILED]

    @of_edges
    @each_way
    @pytest.mark.parametrize("loss", LOSSES)
    def test_a_parent_that_cannot_come_back(
        self, board: JobBoard, other: JobBoard, if_failed: IfFailedName, loss: str
    ) -> None:
        parent, open_one = board.post("resize"), board.post("resize", delay=LONG)
        children = [post_after(board, parent, if_failed=if_failed) for _ in range(3)]
        waiting = post_after(board, parent, open_one, if_failed=if_failed)
        LOSSES[loss](board, parent)
        assert [is_gone(other, child) for child in (*children, waiting)] == [if_failed == "cancel"] * 4
        if if_failed == "wait":
            assert states_of(other, *children, waiting) == [TRASHED] * 4
            assert all(parent.uuid in (other.get(child.uuid).record.reason or "") for child in (*children, waiting))
        if if_failed == "run":
            assert states_of(other, *children, waiting) == [UNCLAIMED] * 3 + [BLOCKED]
            assert counts_of(other, waiting) == EdgeCounts(open=1, gone=1)
            assert uuids_of(drain(board)) == uuids_of(children)

    @of_edges
    @each_way
    @pytest.mark.parametrize("loss", [*FAILURES, *LOSSES])
    def test_a_parent_that_fails_while_its_child_is_in_the_trash(
        self, board: JobBoard, other: JobBoard, if_failed: IfFailedName, loss: str
    ) -> None:
        """One that can't come back holds the child no longer; one in the trash does, but for a child with ``run``."""
        parent, open_one = board.post("resize", max_attempts=1), board.post("resize", delay=LONG)
        child, waiting = (post_after(board, *each, if_failed=if_failed) for each in ([parent], [parent, open_one]))
        for each in (child, waiting):
            board.trash(each, by="an operator")
        {**FAILURES, **LOSSES}[loss](board, parent)
        for each in (child, waiting):
            board.restore(each.uuid)
        can_come_back = loss in FAILURES
        held = [BLOCKED] * 2 if can_come_back else [UNCLAIMED] * 2
        assert states_of(other, child, waiting) == ([UNCLAIMED, BLOCKED] if if_failed == "run" else held)

    @of_edges
    @each_way
    def test_a_parent_that_was_cancelled_before(self, board: JobBoard, if_failed: IfFailedName) -> None:
        parent = board.post("resize")
        board.cancel(parent)
        child = post_after(board, parent.uuid, if_failed=if_failed)
        assert is_gone(board, child) is (if_failed == "cancel")
        if if_failed != "cancel":
            assert states_of(board, child) == [TRASHED if if_failed == "wait" else UNCLAIMED]
            assert outcomes_of(board, child, parent) == [Outcome.GONE]

    @of_edges
    def test_children_go_on_once_their_parent_is_restored_and_consumed(self, board: JobBoard, other: JobBoard) -> None:
        parents = [board.post("resize") for _ in range(2)]
        children = [post_after(board, *parents) for _ in range(3)]
        for parent in parents:
            board.trash(parent, by="an operator")
        assert counts_of(other, children[0]) == EdgeCounts(failed=2)
        board.restore(parents[0].uuid)
        assert counts_of(other, children[0]) == EdgeCounts(open=1, failed=1)
        end(board, parents[0], 1)
        assert states_of(other, *children) == [BLOCKED] * 3
        board.restore(parents[1].uuid)
        end(board, parents[1], 2)
        assert states_of(other, *children) == [UNCLAIMED] * 3
        assert results_of(other, children[2]) == {parents[0].uuid: 1, parents[1].uuid: 2}
        assert [lines_of(other, child, "RESOLVED") for child in children] == [1] * 3

    @of_edges
    def test_a_cancel_goes_down_three_levels(self, board: JobBoard, other: JobBoard) -> None:
        """With one job claimed by then, which ends as its owner says."""
        top = board.post("resize")
        running, waiting = (post_after(board, top, if_failed="cancel") for _ in range(2))
        late = post_after(board, top, delay=LONG, if_failed="cancel")
        of_running, of_waiting, of_both, of_late = (
            post_after(board, *parents, if_failed="cancel")
            for parents in ([running], [waiting], [running, waiting], [late])
        )
        end(board, top)
        board.claim(running, "alice", LONG)
        for each in (waiting, late):
            board.cancel(each)
        assert all(is_gone(other, job) for job in (of_waiting, of_both, of_late))
        assert states_of(other, running, of_running) == [CLAIMED, BLOCKED]
        assert board.cancel(running.uuid) is False
        assert states_of(other, of_running) == [BLOCKED]
        board.consume(running, "alice", "in spite of it")
        assert states_of(other, of_running) == [UNCLAIMED]
        assert outcomes_of(other, of_running, running) == [Outcome.DONE]

    @of_edges
    def test_a_cancel_goes_down_many_levels_and_to_many_children(self, board: JobBoard) -> None:
        top = Posting("resize")
        levels = [[top], *([Posting("resize", after=[top], if_failed="cancel")] for _ in range(60))]
        for _ in range(3):
            levels += [[Posting("resize", after=level, if_failed="cancel")] for level in levels[-2:]]
        first, *jobs = board.post_many([posting for level in levels for posting in level])
        board.cancel(first)
        eventually(lambda: board.claim_next("alice") == [] and board.job_count == 0)
        assert all(is_gone(board, job) for job in jobs)

    @of_edges
    def test_a_child_in_the_trash_holds_back_its_own_children(self, board: JobBoard) -> None:
        parent = board.post("resize")
        child = post_after(board, parent)
        grandchild = post_after(board, child)
        board.cancel(parent)
        assert states_of(board, child, grandchild) == [TRASHED, BLOCKED]
        assert counts_of(board, grandchild) == EdgeCounts(failed=1)
        board.restore(child.uuid)
        assert states_of(board, child, grandchild) == [UNCLAIMED, BLOCKED]
        assert uuids_of(drain(board)) == uuids_of([child, grandchild])

    @of_edges
    @each_way
    def test_a_child_in_the_trash_stays_there(self, board: JobBoard, if_failed: IfFailedName) -> None:
        failing, losing = board.post("resize"), board.post("resize")
        children = [post_after(board, parent, if_failed=if_failed) for parent in (failing, losing)]
        for child in children:
            board.trash(child, by="an operator", reason="not now")
        board.trash(failing, by="an operator")
        board.cancel(losing)
        assert states_of(board, *children) == [TRASHED, TRASHED]
        assert [board.get(child.uuid).record.reason for child in children] == ["not now"] * 2

    @of_edges
    def test_a_restored_child_of_a_failed_parent_waits_on(self, board: JobBoard) -> None:
        parent = board.post("resize")
        child = post_after(board, parent)
        board.trash(child, by="an operator")
        board.trash(parent, by="an operator")
        board.restore(child.uuid)
        assert states_of(board, child) == [BLOCKED]
        board.restore(parent.uuid)
        assert uuids_of(drain(board)) == uuids_of([parent, child])

    @of_edges
    def test_one_failed_parent_of_several_decides_at_once(self, board: JobBoard) -> None:
        parents = [board.post("resize", delay=LONG) for _ in range(3)]
        waiting, cancelled, running = (post_after(board, *parents, if_failed=way) for way in ("wait", "cancel", "run"))
        board.trash(parents[1], by="an operator")
        assert is_gone(board, cancelled)
        assert states_of(board, waiting, running) == [BLOCKED, BLOCKED]
        board.purge(parents[1].uuid)
        assert states_of(board, waiting, running) == [TRASHED, BLOCKED]

    @of_edges
    def test_what_is_told_of_children_whose_parent_fails(self, board: JobBoard, other: JobBoard) -> None:
        parent = board.post("resize")
        cancelled, running = (post_after(board, parent, if_failed=way) for way in ("cancel", "run"))
        heard: list[JobEvent] = []
        stop = other.subscribe(heard.append, [EventKind.CANCELLED, EventKind.RESOLVED])
        try:
            board.trash(parent, by="an operator")
            eventually(lambda: len(heard) == 2)
        finally:
            stop()
        told = {event.uuid: event for event in heard}
        assert told[cancelled.uuid].kind is EventKind.CANCELLED
        assert parent.uuid in (told[cancelled.uuid].reason or "")
        assert told[running.uuid].kind is EventKind.RESOLVED

    @of_edges
    def test_a_purged_child_leaves_no_edges(self, board: JobBoard) -> None:
        parent = board.post("resize")
        children = [post_after(board, parent) for _ in range(3)]
        board.trash(children[0], by="an operator")
        board.purge(children[0].uuid)
        assert set(children_of(board, parent)) == set(uuids_of(children[1:]))
        assert board.audit() == []
        end(board, parent)
        assert set(uuids_of(drain(board))) == set(uuids_of(children[1:]))
