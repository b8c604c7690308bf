"""Outages: others act before a request is sent again, and some outcomes stay unknown (promise 8)."""

from __future__ import annotations

import uuid as uuids
from dataclasses import replace

import pytest

from jobboard.board import JobBoard
from jobboard.errors import BoardUnavailable, ClaimLost, NotFound, UnclaimableJob
from jobboard.job import Job, Posting
from jobboard.schedules.schedule import Schedule
from jobboard.schedules.triggers import Every
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, Case, claim_one, needs, per_shard, snapshot, state_of, uuids_of
from jobboard.testing.faults import Fault, LossyBackend
from jobboard.testing.harness import Harness


def _consume_next(board: JobBoard) -> None:
    board.consume(claim_one(board, "bob"), "bob", "bob's")


class MeanwhileCases(Case):
    """A reply is lost, and others go on before the request is sent again."""

    def test_a_post_is_not_repeated_when_its_job_was_consumed_meanwhile(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        lossy.lose("post", meanwhile=lambda: _consume_next(other))
        job = board.post("resize", key="k")
        assert (job.record.state, board.job_count) == (JobState.COMPLETE, 0)

    def test_a_post_is_not_repeated_when_its_job_was_cancelled_meanwhile(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        uuid = str(uuids.uuid4())
        lossy.lose("post", meanwhile=lambda: other.cancel(uuid))
        assert board.post("resize", uuid=uuid).uuid == uuid
        assert board.job_count == 0

    def test_a_post_is_not_repeated_when_its_key_went_to_another_meanwhile(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        def meanwhile() -> None:
            _consume_next(other)
            other.post("resize", key="k", details={"by": "another"})

        lossy.lose("post", meanwhile=meanwhile)
        assert board.post("resize", key="k").record.state is JobState.COMPLETE
        assert [job.details for job in board.iterjobs()] == [{"by": "another"}]

    @needs(sharded=False)
    def test_a_batch_is_not_repeated_when_some_of_it_ended_meanwhile(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        postings = [Posting("resize", uuid=uuids.uuid4(), key=str(n)) for n in range(4)]

        def meanwhile() -> None:
            _consume_next(other)
            other.cancel(str(postings[1].uuid))
            other.trash(claim_one(other, "bob"), "bob")

        lossy.lose("post", meanwhile=meanwhile)
        jobs = board.post_many(postings)
        assert uuids_of(jobs) == [str(posting.uuid) for posting in postings]
        assert uuids_of(board.iterjobs()) == [jobs[3].uuid]

    def test_a_replacement_is_recognised_when_its_job_was_claimed_meanwhile(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        live = board.post("resize", key="k", details={"n": 1})
        lossy.lose("post", meanwhile=lambda: claim_one(other, "bob"))
        job = board.post("resize", key="k", details={"n": 2}, if_exists="replace")
        assert (job.uuid, job.details, board.find_owner(live)) == (live.uuid, {"n": 2}, "bob")

    def test_a_replacement_is_not_repeated_when_its_job_was_consumed_meanwhile(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        board.post("resize", key="k", details={"n": 1})
        lossy.lose("post", meanwhile=lambda: _consume_next(other))
        board.post("resize", key="k", details={"n": 2}, if_exists="replace")
        assert list(board.iterjobs()) == []

    def test_an_abandon_leaves_the_claim_that_came_meanwhile(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        board.post("resize")
        job, taken = claim_one(board), []
        lossy.lose("abandon", meanwhile=lambda: taken.append(claim_one(other)))
        board.abandon(job, "alice")
        assert state_of(board, job) is JobState.CLAIMED
        other.consume(taken[0], "alice")

    def test_an_abandon_is_recognised_when_its_job_was_consumed_meanwhile(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        board.post("resize")
        job = claim_one(board)
        lossy.lose("abandon", meanwhile=lambda: _consume_next(other))
        board.abandon(job, "alice")
        assert (state_of(board, job), job.result) == (JobState.COMPLETE, "bob's")

    def test_a_release_leaves_the_claim_that_came_meanwhile(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        lossy.lose("release", meanwhile=lambda: claim_one(other, "bob"))
        board.release(job, reason="its host is gone")
        assert board.find_owner(job) == "bob"

    def test_a_trashing_is_recognised_when_its_job_was_restored_and_claimed_meanwhile(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        board.post("resize")
        job = claim_one(board)

        def meanwhile() -> None:
            other.restore(job.uuid)
            claim_one(other, "bob")

        lossy.lose("trash", meanwhile=meanwhile)
        board.trash(job, "alice", reason="broken")
        assert board.find_owner(job) == "bob"

    def test_a_restore_is_recognised_when_its_job_was_claimed_meanwhile(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        job = board.post("resize")
        board.trash(job, by="an operator")
        lossy.lose("restore", meanwhile=lambda: claim_one(other, "bob"))
        assert board.restore(job.uuid).record.owner == "bob"

    def test_a_claim_that_was_lost_meanwhile_names_the_new_owner(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        job = board.post("resize")

        def meanwhile() -> None:
            other.release(job.uuid, reason="its host is gone")
            claim_one(other, "bob")

        lossy.lose("claim", meanwhile=meanwhile)
        with pytest.raises(UnclaimableJob, match="bob"):
            board.claim(job, "alice", LONG)
        assert (board.find_owner(job), job.attempts) == ("bob", 2)

    def test_a_late_checkpoint_leaves_that_of_the_new_owner(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        board.post("resize")
        job = claim_one(board)

        def meanwhile() -> None:
            other.release(job.uuid, reason="its host is gone")
            other.checkpoint(claim_one(other, "bob"), "bob", "bob's")

        lossy.lose("checkpoint", meanwhile=meanwhile)
        with pytest.raises(ClaimLost):
            board.checkpoint(job, "alice", "alice's")
        assert board.get(job.uuid).checkpoint == "bob's"

    def test_a_late_consume_leaves_the_new_owner(self, board: JobBoard, other: JobBoard, lossy: LossyBackend) -> None:
        board.post("resize")
        job = claim_one(board)
        taken: list[Job] = []

        def meanwhile() -> None:
            other.release(job.uuid, reason="its host is gone")
            taken.append(claim_one(other, "alice"))

        lossy.lose("consume", "request", meanwhile=meanwhile)
        with pytest.raises(ClaimLost):
            board.consume(job, "alice")
        other.consume(taken[0], "alice", "in time")
        assert job.result == "in time"

    @per_shard
    def test_claim_next_does_not_return_what_was_lost_meanwhile(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        first, second = board.post("resize"), board.post("resize")

        def meanwhile() -> None:
            other.release(first.uuid, reason="its host is gone")
            assert claim_one(other, "bob") == first

        lossy.lose("claim_next", meanwhile=meanwhile)
        assert board.claim_next("alice", expiry=LONG) == [second]
        assert board.find_owner(first) == "bob"

    def test_a_cancel_and_a_purge_are_recognised(self, board: JobBoard, other: JobBoard, lossy: LossyBackend) -> None:
        cancelled, purged = board.post("resize", key="a"), board.post("resize", key="b")
        board.trash(purged, by="an operator")
        lossy.lose("cancel", meanwhile=lambda: other.post("resize", key="a"))
        assert board.cancel(cancelled) is True
        lossy.lose("purge", meanwhile=lambda: other.post("resize", key="b"))
        board.purge(purged.uuid)
        assert board.job_count == 2
        for job in (cancelled, purged):
            with pytest.raises(NotFound):
                board.get(job.uuid)


class OutageCases(Case):
    """If the board can't know an outcome, it raises an error and never guesses."""

    @pytest.mark.parametrize("fault", ["reply", "request"])
    def test_an_outcome_that_stays_unknown_is_raised_as_such(self, harness: Harness, fault: Fault) -> None:
        board, lossy = harness.lossy_board(patience=0.1)
        board.post("resize")
        job = claim_one(board)
        lossy.lose("consume", fault, times=1_000)
        with pytest.raises(BoardUnavailable, match="unknown"):
            board.consume(job, "alice")

    def test_a_read_without_an_answer_says_nothing_of_an_effect(self, harness: Harness) -> None:
        board, lossy = harness.lossy_board(patience=0.1)
        job = board.post("resize")
        child = board.post("publish", after=[job])
        reads = {
            "stats": board.stats, "read": lambda: board.get(job.uuid), "page": lambda: list(board.iterjobs()),
            "maintenance.paused": board.paused, "entities.all": board.entities,
            "edges.first_parents": lambda: board.graph(child), "edges.first_children": lambda: board.graph(job),
        }  # fmt: skip
        for primitive, read in reads.items():
            lossy.lose(primitive, "reply", times=1_000)
            with pytest.raises(BoardUnavailable) as raised:
                read()  # type: ignore[no-untyped-call,unused-ignore]
            assert "no answer" in str(raised.value)
            assert "unknown" not in str(raised.value)
            lossy.heal()

    def test_a_change_whose_outcome_can_no_longer_be_read_stays_unknown(self, harness: Harness) -> None:
        board, lossy = harness.lossy_board(patience=0.1)
        restored, purged = board.post("resize"), board.post("resize")
        board.schedules.add(Schedule("nightly", Every(hours=1), "write"))
        for job in (restored, purged):
            board.trash(job, by="an operator")
        lossy.lose("read", "refused", times=1_000)
        with pytest.raises(BoardUnavailable, match="unknown"):
            board.restore(restored.uuid)
        with pytest.raises(BoardUnavailable, match="unknown"):
            board.schedules.fire_now("nightly")
        lossy.lose("purge", "reply")
        with pytest.raises(BoardUnavailable, match="unknown"):
            board.purge(purged.uuid)
        lossy.heal()
        assert board.stats().unclaimed == 2
        assert list(board.trashed()) == []

    def test_claim_next_is_never_a_silent_empty_list(self, harness: Harness) -> None:
        board, lossy = harness.lossy_board(patience=0.1)
        board.post("resize")
        lossy.lose("claim_next", "reply")
        lossy.lose("claimed_under", "refused", times=1_000)
        with pytest.raises(BoardUnavailable):
            board.claim_next("alice")

    @pytest.mark.parametrize("fault", ["reply", "refused"])
    def test_claims_are_told_though_a_later_batch_of_them_fails(self, harness: Harness, fault: Fault) -> None:
        board, lossy = harness.lossy_board(patience=0.1)
        lossy.capabilities = replace(lossy.capabilities, largest_batch=2)  # type: ignore[misc]
        board.post_many([Posting("resize") for _ in range(6)])
        lossy.lose("claim_next", fault, after=2)
        lossy.lose("claimed_under", "refused", times=1_000)
        with board.keep("alice"):
            claimed = board.claim_next("alice", limit=6)
            lossy.heal()
            assert len(claimed) == 4
            assert board.consume_many(claimed, "alice") == [None] * 4

    def test_an_end_of_unknown_outcome_can_be_sent_again(self, harness: Harness) -> None:
        board, lossy = harness.lossy_board(patience=0.1)
        board.post("resize")
        job = claim_one(board)
        lossy.lose("consume", "request", times=1_000)
        with pytest.raises(BoardUnavailable):
            board.consume(job, "alice", "done")
        lossy.heal()
        board.consume(job, "alice", "done")
        assert (job.state, job.result) == (JobState.COMPLETE, "done")

    def test_a_refused_request_changed_nothing_and_is_raised_at_once(self, harness: Harness) -> None:
        board, lossy = harness.lossy_board(patience=0.1)
        job = board.post("resize")
        before = snapshot(board, job)
        for primitive in ("claim", "claim_next", "cancel", "trash", "post", "stats", "page", "count"):
            lossy.lose(primitive, "refused")
        calls = [
            lambda: board.claim(job, "alice"),
            lambda: board.claim_next("alice"),
            lambda: board.cancel(job),
            lambda: board.trash(job, by="an operator"),
            lambda: board.post("resize"),
            board.stats,
            lambda: list(board.iterjobs()),
            lambda: board.job_count,
        ]
        for call in calls:
            with pytest.raises(BoardUnavailable, match="refused"):
                call()  # type: ignore[no-untyped-call,unused-ignore]
        assert not lossy.armed
        assert snapshot(board, job) == before
        assert board.job_count == 1

    def test_a_refusal_after_a_lost_reply_leaves_the_outcome_unknown(self, harness: Harness) -> None:
        board, lossy = harness.lossy_board(patience=0.1)
        job = board.post("resize")
        lossy.lose("claim", "reply")
        lossy.lose("claim", "refused", times=1_000)
        with pytest.raises(BoardUnavailable, match="unknown"):
            board.claim(job, "alice")

    def test_a_store_that_comes_back_in_time_is_waited_for(self, harness: Harness) -> None:
        board, lossy = harness.lossy_board()
        lossy.lose("post", "reply")
        lossy.lose("post", "refused", times=2)
        job = board.post("resize")
        assert uuids_of(board.iterjobs()) == [job.uuid]
