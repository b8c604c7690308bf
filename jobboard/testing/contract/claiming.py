"""Claiming: one owner at a time, each later claim with a larger token (promise 2)."""

from __future__ import annotations

import math

import pytest

from jobboard.board import JobBoard
from jobboard.errors import ClaimLost, NotFound, UnclaimableJob
from jobboard.events import EventKind
from jobboard.job import Posting
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, NEVER, Case, claim_one, per_shard, snapshot, state_of
from jobboard.testing.harness import Harness


class ClaimingCases(Case):
    def test_a_claim_returns_the_token_and_sets_it_on_the_handle(self, board: JobBoard) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice")
        assert type(token) is int
        assert token > 0
        assert job.token == token
        assert job.record.token == token

    def test_a_claimed_job_names_its_owner(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        assert other.find_owner(job) is None
        board.claim(job, "alice")
        seen = other.get(job.uuid)
        assert (seen.record.state, seen.record.owner, seen.record.attempts) == (JobState.CLAIMED, "alice", 1)
        assert (seen.owner, seen.state, seen.attempts) == ("alice", JobState.CLAIMED, 1)
        assert other.find_owner(job) == "alice"
        assert seen.token is None

    @pytest.mark.parametrize("who", ["bob", "alice"])
    def test_a_claimed_job_is_refused_and_the_error_names_the_owner(
        self, board: JobBoard, other: JobBoard, who: str
    ) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        before = snapshot(board, job)
        with pytest.raises(UnclaimableJob, match="alice") as caught:
            other.claim(other.get(job.uuid), who)
        assert (caught.value.owner, caught.value.state) == ("alice", JobState.CLAIMED)
        assert snapshot(board, job) == before
        board.consume(job, "alice")

    def test_a_job_of_another_board_is_not_found(self, harness: Harness, board: JobBoard) -> None:
        stranger = harness.board().post("resize")
        with pytest.raises(NotFound):
            board.claim(stranger.uuid, "alice")
        with pytest.raises((NotFound, ValueError)):
            board.claim(stranger, "alice")
        assert stranger.record.attempts == stranger.attempts == 0

    def test_a_consumed_job_cannot_be_claimed(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        board.consume(job, "alice")
        before = snapshot(board, job)
        with pytest.raises(UnclaimableJob) as caught:
            board.claim(job, "bob")
        assert (caught.value.owner, caught.value.state) == (None, JobState.COMPLETE)
        assert snapshot(board, job) == before

    def test_a_trashed_job_cannot_be_claimed(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        board.trash(job, "alice")
        with pytest.raises(UnclaimableJob) as caught:
            board.claim(job, "bob")
        assert (caught.value.owner, caught.value.state) == (None, JobState.TRASHED)
        assert state_of(board, job) is JobState.TRASHED

    def test_a_cancelled_job_cannot_be_claimed(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.cancel(job)
        with pytest.raises(NotFound):
            board.claim(job, "bob")

    def test_a_delayed_job_cannot_be_claimed(self, board: JobBoard) -> None:
        job = board.post("resize", delay=LONG)
        with pytest.raises(UnclaimableJob) as caught:
            board.claim(job, "alice")
        assert (caught.value.owner, caught.value.state) == (None, JobState.DELAYED)
        assert (state_of(board, job), board.get(job.uuid).record.attempts) == (JobState.DELAYED, 0)

    def test_claim_next_on_an_empty_board_is_an_empty_list(self, board: JobBoard) -> None:
        assert board.claim_next("alice") == []
        assert board.claim_next("alice", ["resize"], limit=10, expiry=5) == []

    @per_shard
    def test_claim_next_returns_handles_that_hold_their_claims(self, board: JobBoard, other: JobBoard) -> None:
        posted = [board.post("resize", details={"n": n}) for n in range(3)]
        jobs = board.claim_next("alice", limit=2, expiry=LONG)
        assert jobs == posted[:2]
        for number, job in enumerate(jobs):
            assert (job.token, job.record.state, job.record.owner) == (
                other.get(job.uuid).record.token, JobState.CLAIMED, "alice",
            )  # fmt: skip
            assert (job.details, job.record.attempts, other.find_owner(job)) == ({"n": number}, 1, "alice")
            board.consume(job, "alice")

    def test_claim_next_takes_one_by_default(self, board: JobBoard) -> None:
        for _ in range(3):
            board.post("resize")
        assert len(board.claim_next("alice")) == 1
        assert board.stats().claimed == 1

    def test_claim_next_takes_as_many_as_there_are(self, board: JobBoard) -> None:
        posted = [board.post("resize") for _ in range(3)]
        assert board.claim_next("alice", limit=50) == posted
        assert board.claim_next("alice", limit=50) == []

    @per_shard
    def test_claim_next_takes_hundreds_at_once(self, board: JobBoard) -> None:
        posted = board.post_many([Posting("resize") for _ in range(350)])
        assert board.claim_next("alice", limit=300, expiry=LONG) == posted[:300]
        assert board.claim_next("bob", limit=300, expiry=LONG) == posted[300:]
        assert board.stats().claimed == 350

    def test_claim_next_leaves_what_others_hold(self, board: JobBoard, other: JobBoard) -> None:
        first, second, third = (board.post("resize") for _ in range(3))
        board.claim(second, "alice")
        assert other.claim_next("bob", limit=5) == [first, third]

    def test_claim_next_takes_only_the_names_asked_for(self, board: JobBoard) -> None:
        jobs = {name: board.post(name) for name in ("resize", "rotate", "crop", "resize2", "resiz")}
        assert board.claim_next("alice", ["rotate", "crop", "nobody posted this"], limit=9) == [
            jobs["rotate"],
            jobs["crop"],
        ]
        assert board.claim_next("alice", {"resize"}, limit=9) == [jobs["resize"]]
        assert board.claim_next("alice", ("resize",), limit=9) == []
        assert board.stats().unclaimed == 2

    def test_claim_next_of_no_names_takes_nothing(self, board: JobBoard) -> None:
        board.post("resize")
        assert board.claim_next("alice", [], limit=9) == []
        assert board.stats().unclaimed == 1

    @per_shard
    def test_each_job_is_claimed_once_by_clients_that_take_turns(self, board: JobBoard, other: JobBoard) -> None:
        posted = [board.post("resize").uuid for _ in range(12)]
        claimed = [claim_one(client, who).uuid for _ in range(6) for client, who in ((board, "alice"), (other, "bob"))]
        assert claimed == posted

    def test_every_later_claim_has_a_larger_token(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        tokens = []
        for round_ in range(12):
            client, who = (board, "alice") if round_ % 2 else (other, "bob")
            mine = client.get(job.uuid)
            tokens.append(client.claim(mine, who) if round_ % 3 else (claim_one(client, who).token or 0))
            client.abandon(mine, who, token=tokens[-1])
        assert tokens == sorted(set(tokens))
        assert tokens[0] > 0

    def test_tokens_go_on_growing_after_the_trash(self, board: JobBoard) -> None:
        job = board.post("resize")
        before = board.claim(job, "alice")
        board.trash(job, "alice")
        assert board.claim(board.restore(job.uuid), "alice") > before

    def test_a_claim_for_ever_has_no_end(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice", NEVER)
        assert job.expires_in() == math.inf
        assert board.get(job.uuid).record.expires_at is None
        board.post("resize")
        assert claim_one(board, expiry=NEVER).expires_in() == math.inf
        board.abandon(job, "alice")
        assert job.expires_in() is None

    def test_a_claim_is_written_down_in_the_history(self, board: JobBoard) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice")
        line = job.history[-1]
        assert (line.kind, line.who, line.token) == (EventKind.CLAIMED, "alice", token)

    def test_the_token_goes_with_the_handle_to_another_client(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice")
        other.consume(other.get(job.uuid), "alice", token=token)
        assert state_of(board, job) is JobState.COMPLETE

    def test_a_second_process_of_the_same_name_holds_nothing(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        with pytest.raises(ClaimLost):
            other.consume(other.get(job.uuid), "alice")
        assert board.find_owner(job) == "alice"
