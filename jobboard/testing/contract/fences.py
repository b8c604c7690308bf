"""Fences: without the present claim, no call of an owner changes anything; it raises ClaimLost (promises 3 and 8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jobboard.board import JobBoard
from jobboard.errors import ClaimLost
from jobboard.job import Job
from jobboard.states import JobState
from jobboard.testing.contract.case import (
    LONG,
    SHORT,
    Case,
    claim_one,
    needs,
    per_shard,
    snapshot,
    state_of,
    until_expired,
)
from jobboard.testing.faults import LossyBackend

#: One of the five calls that need a claim, under ``who`` and, if given, ``token``.
End = Callable[..., None]


def _consume(board: JobBoard, job: Job, who: str, **token: Any) -> None:
    board.consume(job, who, {"answer": 42}, **token)


def _abandon(board: JobBoard, job: Job, who: str, **token: Any) -> None:
    board.abandon(job, who, delay=LONG, reason="no time", **token)


def _trash(board: JobBoard, job: Job, who: str, **token: Any) -> None:
    board.trash(job, who, reason="broken", **token)


def _extend(board: JobBoard, job: Job, who: str, **token: Any) -> None:
    board.extend(job, who, 2 * LONG, **token)


def _checkpoint(board: JobBoard, job: Job, who: str, **token: Any) -> None:
    board.checkpoint(job, who, {"page": 3}, **token)


ENDS = [_consume, _abandon, _trash, _extend, _checkpoint]

each_end = pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__[1:])


def _refuses(board: JobBoard, end: End, job: Job, who: str, **token: Any) -> None:
    before = snapshot(board, job)
    with pytest.raises(ClaimLost):
        end(board, job, who, **token)
    assert snapshot(board, job) == before


class FenceCases(Case):
    @each_end
    def test_the_owner_may(self, board: JobBoard, end: End) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        before = snapshot(board, job)
        end(board, job, "alice")
        assert snapshot(board, job) != before

    @each_end
    def test_the_owner_may_by_another_handle_of_the_same_board(self, board: JobBoard, end: End) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        before = snapshot(board, job)
        end(board, board.get(job.uuid), "alice")
        assert snapshot(board, job) != before

    @each_end
    def test_a_claim_ends_with_its_job_though_another_is_posted_under_the_same_uuid(
        self, board: JobBoard, other: JobBoard, end: End
    ) -> None:
        """The second job goes through the same steps as the first, so that they differ only in their claims."""
        job = board.post("resize", details={"n": 1})
        board.claim(job, "alice", LONG)
        board.abandon(job, "alice")
        token = board.claim(job, "alice", LONG)
        other.trash(job, by="an operator")
        other.purge(job.uuid)
        again = other.post("resize", details={"n": 2}, uuid=job.uuid)
        assert other.claim(again, "alice", LONG) > token
        _refuses(board, end, job, "alice", token=token)
        assert (other.get(job.uuid).details, state_of(other, again)) == ({"n": 2}, JobState.CLAIMED)

    @each_end
    def test_whoever_was_given_the_token_may(self, board: JobBoard, other: JobBoard, end: End) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice")
        before = snapshot(board, job)
        end(other, other.get(job.uuid), "alice", token=token)
        assert snapshot(board, job) != before

    @each_end
    def test_nobody_may_without_a_claim(self, board: JobBoard, end: End) -> None:
        job = board.post("resize")
        _refuses(board, end, job, "alice")
        _refuses(board, end, job, "alice", token=1)

    @each_end
    def test_a_lost_claim_says_how_the_job_stands(self, board: JobBoard, other: JobBoard, end: End) -> None:
        def told() -> tuple[str | None, JobState | None]:
            with pytest.raises(ClaimLost) as caught:
                end(board, job, "alice")
            assert str(caught.value.owner or "alice") in str(caught.value)
            return caught.value.owner, caught.value.state

        job = board.post("resize")
        board.claim(job, "alice", LONG)
        other.release(job.uuid, reason="for bob")
        assert told() == (None, JobState.UNCLAIMED)
        other.claim(job.uuid, "bob", LONG)
        assert told() == ("bob", JobState.CLAIMED)
        other.abandon(job.uuid, "bob", delay=LONG)
        assert told() == (None, JobState.DELAYED)
        other.trash(job.uuid, by="an operator")
        assert told() == (None, JobState.TRASHED)
        other.restore(job.uuid)
        other.claim(job.uuid, "bob", LONG)
        other.consume(job.uuid, "bob")
        assert told() == (None, JobState.COMPLETE)

    @each_end
    def test_a_stranger_may_not(self, board: JobBoard, other: JobBoard, end: End) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        _refuses(other, end, other.get(job.uuid), "bob")
        board.consume(job, "alice")

    @each_end
    def test_a_stranger_may_not_even_with_the_token(self, board: JobBoard, other: JobBoard, end: End) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice")
        _refuses(other, end, other.get(job.uuid), "bob", token=token)
        _refuses(board, end, job, "bob")
        board.consume(job, "alice")

    @each_end
    def test_a_second_process_of_the_same_name_may_not(self, board: JobBoard, other: JobBoard, end: End) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice")
        _refuses(other, end, other.get(job.uuid), "alice")
        for guess in (token + 1, token + 1_000, 2**40):
            _refuses(other, end, other.get(job.uuid), "alice", token=guess)
        board.consume(job, "alice")

    @each_end
    def test_a_stale_token_may_not_after_a_later_claim_of_the_same_name(
        self, board: JobBoard, other: JobBoard, end: End
    ) -> None:
        job = board.post("resize")
        stale = board.claim(job, "alice")
        board.release(board.get(job.uuid), reason="too slow")
        mine = other.get(job.uuid)
        other.claim(mine, "alice")
        _refuses(board, end, job, "alice")
        _refuses(other, end, other.get(job.uuid), "bob", token=stale)
        _refuses(board, end, board.get(job.uuid), "alice", token=stale)
        other.consume(mine, "alice")

    @each_end
    def test_nobody_may_after_the_job_was_consumed(self, board: JobBoard, end: End) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice")
        board.consume(job, "alice", {"answer": 41})
        _refuses(board, end, job, "alice")
        _refuses(board, end, board.get(job.uuid), "alice", token=token)
        assert board.get(job.uuid).result == {"answer": 41}

    @each_end
    def test_nobody_may_after_the_job_was_abandoned(self, board: JobBoard, end: End) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice")
        board.abandon(job, "alice", reason="first")
        _refuses(board, end, job, "alice")
        _refuses(board, end, board.get(job.uuid), "alice", token=token)
        assert state_of(board, job) is JobState.UNCLAIMED

    @each_end
    def test_nobody_may_after_the_job_was_trashed(self, board: JobBoard, end: End) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice")
        board.trash(job, "alice", reason="first")
        _refuses(board, end, job, "alice")
        _refuses(board, end, board.get(job.uuid), "alice", token=token)
        assert board.get(job.uuid).record.reason == "first"

    @each_end
    def test_nobody_may_after_an_operator_trashed_the_job(self, board: JobBoard, other: JobBoard, end: End) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        other.trash(other.get(job.uuid), by="an operator", reason="runaway")
        _refuses(board, end, job, "alice")

    @each_end
    def test_nobody_may_after_an_operator_released_the_job(self, board: JobBoard, other: JobBoard, end: End) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice")
        other.release(other.get(job.uuid), reason="its host is gone")
        _refuses(board, end, job, "alice")
        _refuses(other, end, other.get(job.uuid), "alice", token=token)

    @each_end
    def test_nobody_may_after_the_job_went_through_the_trash(self, board: JobBoard, end: End) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice")
        board.trash(job, "alice")
        board.restore(job.uuid)
        _refuses(board, end, job, "alice")
        _refuses(board, end, board.get(job.uuid), "alice", token=token)

    @needs(expiry="time")
    def test_nobody_may_after_the_claim_expired(self, board: JobBoard) -> None:
        jobs = [board.post("resize") for _ in ENDS]
        tokens = [board.claim(job, "alice", SHORT) for job in jobs]
        until_expired(board, *jobs)
        for end, job, token in zip(ENDS, jobs, tokens, strict=True):
            _refuses(board, end, job, "alice")
            _refuses(board, end, board.get(job.uuid), "alice", token=token)
            assert board.find_owner(job) is None

    @needs(expiry="time")
    @per_shard
    def test_the_late_one_may_not_while_the_next_owner_works(self, board: JobBoard, other: JobBoard) -> None:
        jobs = [board.post("resize") for _ in ENDS]
        tokens = [board.claim(job, "alice", SHORT) for job in jobs]
        until_expired(board, *jobs)
        for end, job, late in zip(ENDS, jobs, tokens, strict=True):
            taken_over = claim_one(other, "alice")
            assert (taken_over, (taken_over.token or 0) > late) == (job, True)
            _refuses(board, end, job, "alice")
            other.consume(taken_over, "alice")

    @each_end
    def test_the_claim_of_one_job_is_none_of_another(self, board: JobBoard, end: End) -> None:
        mine, unclaimed, theirs = (board.post("resize") for _ in range(3))
        token = board.claim(mine, "alice")
        board.claim(theirs, "bob")
        _refuses(board, end, board.get(unclaimed.uuid), "alice", token=token)
        _refuses(board, end, board.get(theirs.uuid), "alice", token=token)

    @pytest.mark.parametrize("end", ENDS[:3], ids=lambda end: end.__name__[1:])
    def test_nobody_takes_the_end_of_an_owner_for_their_own(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, end: End
    ) -> None:
        """After a lost reply, only the owner of the claim may believe that its first try ended the claim."""
        job = other.post("resize")
        token = other.claim(job, "alice")
        end(other, job, "alice")
        lossy.lose(end.__name__[1:])
        _refuses(board, end, board.get(job.uuid), "bob", token=token)
