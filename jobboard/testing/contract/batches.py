"""Batches: many in one round trip, each with its own outcome."""

from __future__ import annotations

import uuid as uuids

import pytest

from jobboard.backends.base import Capabilities
from jobboard.backends.rows import Verdict
from jobboard.board import JobBoard
from jobboard.errors import ClaimLost, InvalidPosting
from jobboard.job import Posting
from jobboard.states import JobPriority, JobState
from jobboard.testing.contract.case import (
    LONG,
    Case,
    claim_one,
    needs,
    numbers_of,
    per_shard,
    snapshot,
    state_of,
    uuids_of,
)
from jobboard.testing.harness import Harness


def _requests(capabilities: Capabilities, items: int) -> int:
    """Return the least number of batches for that many items."""
    return -(-items // capabilities.largest_batch)


class BatchCases(Case):
    @per_shard
    def test_a_thousand_are_posted_in_order(self, board: JobBoard, other: JobBoard) -> None:
        jobs = board.post_many([Posting("resize", details={"n": n}) for n in range(1_000)])
        assert numbers_of(jobs) == numbers_of(other.iterjobs()) == list(range(1_000))
        assert uuids_of(jobs) == uuids_of(other.iterjobs())
        assert [job.sequence for job in jobs] == sorted({job.sequence for job in jobs})
        assert other.job_count == 1_000

    def test_each_of_a_batch_is_what_its_posting_says(self, board: JobBoard) -> None:
        uuid = uuids.uuid4()
        one, two, three = board.post_many(
            [
                Posting("resize", details={"n": 1}, priority=JobPriority.HIGH, key="a", max_attempts=3),
                Posting("rotate", delay=LONG),
                Posting("crop", uuid=uuid, priority="low"),
            ]
        )
        assert (one.name, one.details, one.priority, one.key, one.max_attempts) == (
            "resize", {"n": 1}, JobPriority.HIGH, "a", 3,
        )  # fmt: skip
        assert (two.name, two.details, two.record.state) == ("rotate", {}, JobState.DELAYED)
        assert (three.uuid, three.priority) == (str(uuid), JobPriority.LOW)

    def test_a_batch_of_nothing_is_nothing(self, board: JobBoard) -> None:
        assert board.post_many([]) == []
        assert board.consume_many([], "alice") == []
        assert board.extend_many([], "alice") == []
        assert board.job_count == 0

    def test_a_batch_may_be_an_iterator(self, board: JobBoard) -> None:
        assert len(board.post_many(Posting("resize") for _ in range(3))) == 3
        claimed = board.claim_next("alice", limit=3)
        assert board.consume_many(iter(claimed), "alice") == [None] * 3

    def test_one_invalid_posting_keeps_the_whole_batch_off_the_board(self, board: JobBoard) -> None:
        bad = [Posting("resize", details={"call": print}), Posting("", details={}), Posting("resize", delay=-1)]
        for posting in bad:
            with pytest.raises(ValueError, match="details.call|name|delay"):
                board.post_many([Posting("resize"), posting, Posting("resize")])
        assert (board.job_count, list(board.iterjobs())) == (0, [])

    @needs(sharded=False)
    def test_a_batch_posted_again_is_posted_once(self, board: JobBoard) -> None:
        postings = [Posting("resize", uuid=uuids.uuid4(), details={"n": n}) for n in range(30)]
        first = board.post_many(postings)
        board.consume(claim_one(board), "alice")
        again = board.post_many(postings)
        assert uuids_of(again) == uuids_of(first)
        assert [job.record.state for job in again] == [JobState.COMPLETE] + [JobState.UNCLAIMED] * 29
        assert board.job_count == 29

    def test_one_uuid_twice_in_a_batch_is_one_job(self, board: JobBoard) -> None:
        uuid = uuids.uuid4()
        one, two = board.post_many([Posting("resize", uuid=uuid), Posting("resize", uuid=uuid)])
        assert (one.uuid, one.sequence) == (two.uuid, two.sequence)
        assert board.job_count == 1

    def test_one_uuid_with_a_key_twice_in_a_batch_is_one_job(self, board: JobBoard) -> None:
        uuid = uuids.uuid4()
        one, two = board.post_many([Posting("resize", uuid=uuid, key="k"), Posting("resize", uuid=uuid, key="k")])
        assert (one.uuid, one.sequence) == (two.uuid, two.sequence)
        assert board.job_count == 1

    def test_a_batch_is_one_round_trip(self, harness: Harness) -> None:
        board, backend = harness.lossy_board()
        size = min(300, harness.capabilities.largest_batch)
        board.post_many([Posting("resize") for _ in range(size)])
        assert backend.calls["post"] == _requests(harness.capabilities, size) == 1
        jobs = board.claim_next("alice", limit=size, expiry=LONG)
        assert len(jobs) == size
        assert backend.calls["claim_next"] <= 2
        assert board.extend_many(jobs, "alice", LONG) == [Verdict.DONE] * size
        assert board.consume_many(jobs, "alice") == [None] * size
        assert (backend.calls["extend"], backend.calls["consume"]) == (1, 1)

    def test_consume_many_tells_of_each(self, board: JobBoard, other: JobBoard) -> None:
        good, released, consumed, strange, last = board.post_many([Posting("resize") for _ in range(5)])
        claims = board.claim_next("alice", limit=3, expiry=LONG)
        other.claim(other.get(strange.uuid), "bob", LONG)
        claims += [strange, *board.claim_next("alice", expiry=LONG)]
        other.release(other.get(released.uuid), reason="its host is gone")
        board.consume(consumed.uuid, "alice", "early")
        before = snapshot(board, consumed)
        outcomes = board.consume_many(claims, "alice")
        assert [type(outcome) for outcome in outcomes] == [type(None), ClaimLost, ClaimLost, ClaimLost, type(None)]
        assert (state_of(board, good), state_of(board, last)) == (JobState.COMPLETE, JobState.COMPLETE)
        assert (state_of(board, released), board.find_owner(strange)) == (JobState.UNCLAIMED, "bob")
        assert snapshot(board, consumed) == before

    def test_consume_many_takes_a_result_for_each(self, board: JobBoard) -> None:
        board.post_many([Posting("resize") for _ in range(3)])
        claims = board.claim_next("alice", limit=3)
        outcomes = board.consume_many(claims, "alice", results=["a", {1: 2}, None])
        assert (outcomes[0], type(outcomes[1]), outcomes[2]) == (None, InvalidPosting, None)
        assert [job.record.result for job in map(board.get, uuids_of(claims))] == ["a", None, None]
        assert state_of(board, claims[1]) is JobState.CLAIMED

    def test_one_job_twice_in_a_batch_is_consumed_once(self, board: JobBoard) -> None:
        board.post("resize")
        job = claim_one(board)
        first, second = board.consume_many([job, job], "alice")
        assert (first, type(second)) == (None, ClaimLost)

    def test_extend_many_tells_of_each(self, board: JobBoard, other: JobBoard) -> None:
        board.post_many([Posting("resize") for _ in range(3)])
        claims = board.claim_next("alice", limit=3, expiry=20)
        other.cancel(other.get(claims[1].uuid))
        other.release(other.get(claims[2].uuid), reason="its host is gone")
        assert board.extend_many(claims, "alice", LONG) == [Verdict.DONE, Verdict.CANCEL_ASKED, Verdict.LOST]
        assert [board.find_owner(job) for job in claims] == ["alice", "alice", None]

    def test_extend_many_keeps_the_progress_of_each(self, board: JobBoard, other: JobBoard) -> None:
        board.post_many([Posting("resize") for _ in range(2)])
        claims = board.claim_next("alice", limit=2)
        board.extend_many(claims, "alice", LONG, progress=[{"done": 1}, {"done": 2}])
        board.extend_many(claims, "alice", LONG, progress=[None, {"done": 3}])
        assert [other.get(job.uuid).record.progress for job in claims] == [{"done": 1}, {"done": 3}]

    @per_shard
    def test_a_batch_longer_than_the_store_takes_at_once_is_cut(self, harness: Harness) -> None:
        board, backend = harness.lossy_board()
        size = min(2 * harness.capabilities.largest_batch + 1, 2_500)
        jobs = board.post_many([Posting("resize") for _ in range(size)])
        assert backend.calls["post"] == _requests(harness.capabilities, size)
        claims = board.claim_next("alice", limit=size, expiry=LONG)
        assert claims == jobs
        assert board.consume_many(claims, "alice") == [None] * size
        assert board.job_count == 0
