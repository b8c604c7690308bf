"""Expiry: a dead owner's job becomes claimable again by itself, for everybody (promises 5 and 9)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jobboard.board import JobBoard
from jobboard.events import EventKind
from jobboard.job import Posting
from jobboard.states import JobPriority, JobState
from jobboard.testing.contract.case import (
    LONG,
    NEVER,
    SHORT,
    SLACK,
    Case,
    claim_one,
    let_a_claim_expire,
    needs,
    per_shard,
    state_of,
    until_expired,
    uuids_of,
)
from jobboard.testing.deadline import eventually
from jobboard.testing.harness import Harness


class ExpiryCases(Case):
    @needs(expiry="time")
    def test_an_expired_claim_ends(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice", SHORT)
        until_expired(other, job)
        record = other.get(job.uuid).record
        assert (record.state, record.owner, record.expires_at) == (JobState.UNCLAIMED, None, None)
        assert (record.attempts, record.token) == (1, token)
        assert other.find_owner(job) is None

    @needs(expiry="time")
    def test_an_expired_claim_goes_to_the_next_owner_with_a_larger_token(
        self, board: JobBoard, other: JobBoard
    ) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice", SHORT)
        [again] = eventually(lambda: other.claim_next("bob", expiry=LONG))
        assert (again, again.record.owner, again.record.attempts) == (job, "bob", 2)
        assert (again.token or 0) > token

    @needs(expiry="time")
    def test_an_expired_job_can_be_claimed_by_its_handle(self, board: JobBoard, other: JobBoard) -> None:
        job, witness = board.post("resize"), board.post("witness")
        token = board.claim(job, "alice", SHORT)
        board.claim(witness, "alice", SHORT)
        until_expired(other, witness)
        assert other.claim(other.get(job.uuid), "bob") > token

    @needs(expiry="time")
    def test_no_claim_expires_before_its_time(self, board: JobBoard, other: JobBoard) -> None:
        held, forever, short = (board.post("resize") for _ in range(3))
        board.claim(held, "alice", LONG)
        board.claim(forever, "alice", NEVER)
        board.claim(short, "alice", SHORT)
        until_expired(other, short)
        assert uuids_of(other.claim_next("bob", limit=9)) == [short.uuid]
        assert board.find_owner(held) == board.find_owner(forever) == "alice"

    @needs(expiry="time")
    def test_hundreds_of_expired_jobs_are_claimable_in_order(self, board: JobBoard, other: JobBoard) -> None:
        posted = board.post_many([Posting("resize") for _ in range(250)])
        # On a slow machine the first claims may end before the last ones are made, and be made again.
        assert 0 < len(board.claim_next("alice", limit=250, expiry=SHORT)) <= 250
        let_a_claim_expire(other)
        assert other.claim_next("bob", limit=250, expiry=LONG) == posted
        assert other.stats().claimed == 250

    @needs(expiry="time")
    @per_shard
    def test_an_expired_job_of_higher_priority_comes_first_again(self, board: JobBoard) -> None:
        urgent = board.post("resize", priority=JobPriority.HIGH)
        board.claim(urgent, "alice", SHORT)
        board.post("resize")
        until_expired(board, urgent)
        assert claim_one(board, "bob") == urgent

    @needs(expiry="time")
    def test_an_expiry_is_written_down_in_the_history(self, board: JobBoard) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice", SHORT)
        until_expired(board, job)
        line = job.history[-1]
        assert (line.kind, line.who, line.token) == (EventKind.EXPIRED, "alice", token)

    @needs(expiry="time")
    def test_the_checkpoint_outlives_the_expiry(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        board.checkpoint(job, "alice", {"page": 7})
        board.extend(job, "alice", SHORT)
        until_expired(board, job)
        assert claim_one(other, "bob").checkpoint == {"page": 7}

    @needs(expiry="time")
    def test_each_look_counts_the_job_of_an_expired_claim_as_unclaimed(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize", key="cat.png")
        board.claim(job, "alice", SHORT)
        eventually(lambda: other.stats().claimed == 0)
        assert (other.stats().unclaimed, other.stats().names["resize"].unclaimed) == (1, 1)
        assert uuids_of(other.iterjobs(only_unclaimed=True)) == [job.uuid]
        assert list(other.iterjobs(states=[JobState.CLAIMED])) == []
        assert other.find("resize", "cat.png").record.state is JobState.UNCLAIMED
        assert job.expires_in() is None

    @needs(expiry="time")
    def test_a_key_replaces_what_an_expired_claim_left(self, board: JobBoard) -> None:
        job = board.post("resize", key="cat.png", details={"n": 1})
        board.claim(job, "alice", SHORT)
        let_a_claim_expire(board)
        replaced = board.post("resize", key="cat.png", details={"n": 2}, if_exists="replace")
        assert (replaced.uuid, replaced.details) == (job.uuid, {"n": 2})

    @needs(expiry="time")
    def test_the_owner_of_an_expired_claim_that_nobody_took_is_late_too(self, board: JobBoard) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice", SHORT)
        until_expired(board, job)
        assert board.claim(job, "alice") > token
        board.consume(job, "alice")

    @needs(expiry="time")
    def test_expires_in_counts_down(self, board: JobBoard) -> None:
        job = board.post("resize")
        assert job.expires_in() is None
        board.claim(job, "alice", LONG)
        first = job.expires_in() or 0
        assert LONG - 60 < first <= LONG + SLACK
        eventually(lambda: (job.expires_in() or 0) < first)
        expires_at = job.record.expires_at
        assert expires_at is not None
        assert abs(expires_at - datetime.now(UTC) - timedelta(seconds=LONG)) < timedelta(seconds=60)

    @needs(expiry="time")
    @pytest.mark.parametrize("how", ["claim", "claim_next"])
    def test_claims_expire_by_default_after_thirty_seconds(self, board: JobBoard, how: str) -> None:
        job = board.post("resize")
        if how == "claim":
            board.claim(job, "alice")
        else:
            board.claim_next("alice")
        assert 20 < (job.expires_in() or 0) <= 30 + SLACK

    @needs(expiry="time")
    @pytest.mark.parametrize("how", ["claim", "claim_next"])
    def test_the_default_expiry_is_an_option_of_the_board(self, harness: Harness, how: str) -> None:
        board = harness.board(expiry=SHORT)
        job = board.post("resize")
        if how == "claim":
            board.claim(job, "alice")
        else:
            board.claim_next("alice")
        eventually(lambda: state_of(board, job) is JobState.UNCLAIMED)

    @needs(expiry="time")
    def test_a_client_that_closes_keeps_its_claims_until_they_expire(self, harness: Harness, board: JobBoard) -> None:
        dying = harness.board(board.name)
        held, short = board.post("resize"), board.post("resize")
        dying.claim(dying.get(held.uuid), "alice", LONG)
        dying.claim(dying.get(short.uuid), "alice", SHORT)
        dying.close()
        until_expired(board, short)
        assert board.find_owner(held) == "alice"
        assert claim_one(board, "bob") == short
