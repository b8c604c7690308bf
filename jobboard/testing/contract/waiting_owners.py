"""A claimed job takes parents from its owner, and waits for them once its claim has ended."""

from __future__ import annotations

from typing import Any

import pytest

from jobboard.backends.edge_rows import EdgeCounts, LinkOutcome, Outcome
from jobboard.backends.rows import Fence
from jobboard.board import JobBoard, wait_for_jobs
from jobboard.errors import ClaimLost, InvalidPosting
from jobboard.job import Job, Posting
from jobboard.testing.contract.case import LONG, SHORT, claim_one, drain, needs, state_of, uuids_of
from jobboard.testing.contract.edge_case import (
    BLOCKED,
    CLAIMED,
    COMPLETE,
    TRASHED,
    UNCLAIMED,
    EdgeCase,
    counts_of,
    each_way,
    end,
    is_gone,
    link,
    of_edges,
    outcomes_of,
    parents_of,
    post_after,
    results_of,
)
from jobboard.testing.contract.lane_case import LANE, kinds_told, limit, post_in, slots_of, states_of
from jobboard.testing.deadline import eventually
from jobboard.types import IfFailedName
from jobboard.validation import new_uuid


class WaitingOwnerCases(EdgeCase):
    @of_edges
    def test_a_running_job_waits_for_jobs_and_then_has_their_results(self, board: JobBoard, other: JobBoard) -> None:
        first, there = board.post("first"), board.post("part")
        job = post_after(board, first, max_attempts=1)
        end(board, first, "early")
        claimed = claim_one(board, names=["resize"])
        parts = [Posting("part", uuid=new_uuid()) for _ in range(2)]
        wait_for_jobs(board, claimed, "alice", [*parts, there])
        assert states_of(other, job) == [BLOCKED]
        assert counts_of(other, job) == EdgeCounts(open=3, done=1)
        for number, part in enumerate(board.claim_next("bob", ["part"], 3, LONG)):
            assert states_of(other, job) == [BLOCKED]
            board.consume(part, "bob", number)
        assert sorted(map(str, results_of(other, job).values())) == ["0", "1", "2", "early"]
        again = claim_one(other, names=["resize"])
        assert (again.uuid, again.record.attempts) == (job.uuid, 1)
        assert (again.token or 0) > (claimed.token or 0)
        other.consume(again, "alice")
        told = ["CLAIMED", "BLOCKED", "ABANDONED", "RESOLVED", "CLAIMED", "CONSUMED"]
        assert [kind for kind in kinds_told(board, job) if kind in told][-6:] == told

    @of_edges
    def test_a_job_that_waits_for_what_is_over_can_be_claimed_at_once(self, board: JobBoard) -> None:
        done, gone = board.post("part"), board.post("part")
        end(board, done, 1)
        board.cancel(gone)
        job = _claimed(board)
        wait_for_jobs(board, job, "alice", [done, gone])
        assert states_of(board, job) == [UNCLAIMED]
        assert outcomes_of(board, job, done, gone) == [Outcome.DONE, Outcome.GONE]

    @of_edges
    @pytest.mark.parametrize("ending", ["release", "expire"])
    def test_a_claim_that_ends_before_its_owner_ends_it(self, board: JobBoard, ending: str) -> None:
        job, part = _claimed(board, LONG if ending == "release" else SHORT * 5), board.post("part")
        assert _take(board, job, part) is LinkOutcome.DONE
        if ending == "release":
            board.release(job, reason="it hangs")
        eventually(lambda: state_of(board, job) is BLOCKED)
        assert _take(board, job, part) is LinkOutcome.REPEATED
        with pytest.raises(ClaimLost):
            board.abandon(job, "alice")
        end(board, part, 1)
        assert uuids_of(drain(board)) == [job.uuid]

    @of_edges
    def test_a_late_owner_waits_for_nothing_and_posts_nothing(self, board: JobBoard, other: JobBoard) -> None:
        job, there = _claimed(board), board.post("rotate")
        other.release(other.get(job.uuid), reason="it hangs")
        for _ in range(2):
            with pytest.raises(ClaimLost):
                wait_for_jobs(board, job, "alice", [Posting("part", uuid=new_uuid()), there])
            eventually(lambda: not list(board.iterjobs(names=["part"])))
            assert parents_of(other, job) == {}
            other.claim(other.get(job.uuid), "bob", LONG)
            other.release(other.get(job.uuid), reason="it hangs")
        assert len(list(drain(board))) == 2

    @of_edges
    def test_a_parent_that_is_in_the_trash_holds_it_back(self, board: JobBoard) -> None:
        job, part, failed = _claimed(board), board.post("part"), board.post("part")
        board.trash(failed, by="an operator")
        assert _take(board, job, part, failed) is LinkOutcome.DONE
        end(board, part)
        assert states_of(board, job) == [CLAIMED]
        board.abandon(job, "alice", counted=False)
        assert states_of(board, job) == [BLOCKED]
        board.restore(failed.uuid)
        assert outcomes_of(board, job, failed) == [Outcome.OPEN]
        end(board, failed, "mended")
        assert states_of(board, job) == [UNCLAIMED]
        assert results_of(board, job)[failed.uuid] == "mended"

    @of_edges
    @each_way
    def test_parents_that_fail_while_it_is_claimed_leave_it_claimed(
        self, board: JobBoard, if_failed: IfFailedName
    ) -> None:
        """And then it waits for the others; nobody has to look again once its claim has ended."""
        job = _claimed(board, if_failed=if_failed)
        gone, failed, last = (board.post("part") for _ in range(3))
        assert _take(board, job, gone, failed, last) is LinkOutcome.DONE
        board.trash(failed, by="an operator")
        board.cancel(gone)
        assert states_of(board, job) == [CLAIMED]
        assert board.audit() == []
        board.abandon(job, "alice", counted=False)
        assert states_of(board, job) == [BLOCKED]
        end(board, last)
        assert states_of(board, job) == [UNCLAIMED]
        assert outcomes_of(board, job, gone, failed, last) == [Outcome.GONE, Outcome.FAILED, Outcome.DONE]

    @of_edges
    @each_way
    def test_a_parent_that_is_cancelled_while_it_waits(self, board: JobBoard, if_failed: IfFailedName) -> None:
        job, part = _claimed(board, if_failed=if_failed), board.post("part")
        wait_for_jobs(board, job, "alice", [part])
        board.cancel(part)
        if if_failed == "cancel":
            assert is_gone(board, job)
            return
        assert states_of(board, job) == [TRASHED if if_failed == "wait" else UNCLAIMED]
        if if_failed == "wait":
            board.restore(job.uuid)
            # It was restored without the one that can't come back: that decides nothing any more.
            again, more = claim_one(board), board.post("part")
            wait_for_jobs(board, again, "alice", [more])
            assert states_of(board, job) == [BLOCKED]
            end(board, more)
            assert states_of(board, job) == [UNCLAIMED]

    @of_edges
    def test_an_end_is_an_end_whatever_it_has_taken(self, board: JobBoard) -> None:
        part = board.post("part")
        done, trashed, cancelled = (_claimed(board) for _ in range(3))
        for job in (done, trashed, cancelled):
            assert _take(board, job, part) is LinkOutcome.DONE
        board.consume(done, "alice", "early")
        board.trash(trashed, "alice", reason="broken")
        board.cancel(cancelled)
        board.abandon(cancelled, "alice")
        assert states_of(board, done, trashed) == [COMPLETE, TRASHED]
        assert is_gone(board, cancelled)
        board.restore(trashed.uuid)
        assert states_of(board, trashed) == [BLOCKED]
        assert uuids_of(drain(board)) == uuids_of([part, trashed])

    @of_edges
    @needs(sharded=False)
    def test_it_holds_no_slot_of_a_strict_lane_while_it_waits(self, board: JobBoard) -> None:
        limit(board, 1, order="strict")
        job, second = (post_in(board) for _ in range(2))
        claimed = claim_one(board)
        assert claimed == job
        wait_for_jobs(board, claimed, "alice", [Posting("part", uuid=new_uuid(), lane=LANE)])
        assert slots_of(board) == (0, 1, 1)
        assert [each.name for each in drain(board, limit=1)] == ["resize", "part", "resize"]
        assert states_of(board, second, job) == [COMPLETE] * 2

    @of_edges
    def test_it_can_not_wait_for_what_waits_for_it(self, board: JobBoard) -> None:
        job = _claimed(board)
        child = post_after(board, job)
        grandchild = post_after(board, child)
        for jobs in ([grandchild], [job], [Posting("rotate", uuid=new_uuid(), after=[grandchild])]):
            with pytest.raises(InvalidPosting, match="wait for each other"):
                wait_for_jobs(board, job, "alice", jobs)
        assert states_of(board, job) == [CLAIMED]
        assert parents_of(board, job) == {}
        board.consume(job, "alice")
        assert uuids_of(drain(board)) == uuids_of([child, grandchild])


def _claimed(board: JobBoard, expiry: float = LONG, **options: Any) -> Job:
    job = board.post("resize", **options)
    board.claim(job, "alice", expiry)
    return job


def _take(board: JobBoard, job: Job, *parents: Job) -> LinkOutcome:
    """Let a claimed job take parents, as its owner asks for it."""
    return link(board, job, *parents, fence=Fence(job.uuid, "alice", job.token or 0))
