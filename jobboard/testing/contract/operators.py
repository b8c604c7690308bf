"""What operators do: release, the trash, pause, cancel, audit."""

from __future__ import annotations

from typing import Any

import pytest

from jobboard.backends.rows import Verdict
from jobboard.board import JobBoard
from jobboard.errors import AlreadyPosted, ClaimLost, NotFound, UnclaimableJob
from jobboard.events import EventKind
from jobboard.job import Posting
from jobboard.states import JobPriority, JobState
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
    uuids_of,
)
from jobboard.testing.harness import Harness


class ReleaseCases(Case):
    def test_a_release_breaks_the_claim(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice", LONG)
        other.release(other.get(job.uuid), reason="its host is gone")
        record = other.get(job.uuid).record
        assert (record.state, record.owner, record.expires_at) == (JobState.UNCLAIMED, None, None)
        assert (record.attempts, record.reason) == (1, "its host is gone")
        assert (claim_one(other, "bob").token or 0) > token

    def test_a_release_is_written_down_in_the_history(self, board: JobBoard) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice")
        board.release(job, reason="its host is gone")
        line = job.history[-1]
        assert (line.kind, line.token, line.reason) == (EventKind.RELEASED, token, "its host is gone")

    def test_without_a_claim_there_is_nothing_to_release(self, board: JobBoard) -> None:
        unclaimed, delayed, complete = board.post("resize"), board.post("resize", delay=LONG), board.post("resize")
        board.claim(complete, "alice")
        board.consume(complete, "alice")
        for job in (unclaimed, delayed, complete):
            before = snapshot(board, job)
            with pytest.raises(ClaimLost):
                board.release(job, reason="its host is gone")
            assert snapshot(board, job) == before

    def test_a_claim_that_has_ended_otherwise_is_not_released(self, board: JobBoard) -> None:
        job = board.post("resize")
        token = board.claim(job, "alice", LONG)
        board.abandon(job, "alice")
        assert board._backend.jobs.release(job.uuid, token, "its host is gone") is Verdict.LOST
        board.claim(job, "bob", LONG)
        before = snapshot(board, job)
        assert board._backend.jobs.release(job.uuid, token, "its host is gone") is Verdict.LOST
        assert snapshot(board, job) == before

    def test_a_job_that_is_gone_cannot_be_released(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.cancel(job)
        with pytest.raises(NotFound):
            board.release(job, reason="its host is gone")


class TrashBinCases(Case):
    def test_a_restored_job_is_as_it_was_posted(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize", details={"a": 1}, priority=JobPriority.LOW, key="k", max_attempts=3)
        board.trash(claim_one(board), "alice", reason="broken")
        restored = other.restore(job.uuid)
        assert (restored.uuid, restored.details, restored.sequence) == (job.uuid, {"a": 1}, job.sequence)
        assert (restored.priority, restored.key, restored.max_attempts) == (JobPriority.LOW, "k", 3)
        assert (restored.record.state, restored.record.attempts) == (JobState.UNCLAIMED, 0)
        assert (list(board.trashed()), board.job_count, board.stats().trashed) == ([], 1, 0)
        assert board.find("resize", "k").uuid == job.uuid
        assert claim_one(other, "bob") == job

    def test_the_delay_of_a_restored_job_does_not_come_back(self, board: JobBoard) -> None:
        """An operator who restores it wants it now."""
        job = board.post("resize", delay=LONG)
        board.trash(job, by="ada")
        assert board.restore(job.uuid).record.state is JobState.UNCLAIMED
        board.abandon(claim_one(board), "alice")
        assert job.state is JobState.UNCLAIMED

    @pytest.mark.parametrize("twice", ["restore", "purge"])
    def test_what_is_not_in_the_trash_cannot_be_restored_or_purged(self, board: JobBoard, twice: str) -> None:
        job, gone = board.post("resize"), board.post("resize")
        board.cancel(gone)
        before = snapshot(board, job)
        for absent in (job, gone):
            with pytest.raises(NotFound):
                getattr(board, twice)(absent.uuid)
        assert snapshot(board, job) == before

    def test_a_second_restore_finds_nothing_in_the_trash(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.trash(claim_one(board), "alice")
        board.restore(job.uuid)
        with pytest.raises(NotFound):
            board.restore(job.uuid)

    def test_a_job_whose_key_was_taken_meanwhile_stays_in_the_trash(self, board: JobBoard) -> None:
        job = board.post("resize", key="k")
        board.trash(claim_one(board), "alice")
        newer = board.post("resize", key="k")
        with pytest.raises(AlreadyPosted):
            board.restore(job.uuid)
        assert uuids_of(board.trashed()) == [job.uuid]
        assert uuids_of(board.iterjobs()) == [newer.uuid]
        board.cancel(newer)
        assert board.restore(job.uuid).record.state is JobState.UNCLAIMED

    def test_a_purged_job_is_gone_for_good(self, board: JobBoard, other: JobBoard) -> None:
        job, kept = board.post("resize"), board.post("resize")
        for claimed in board.claim_next("alice", limit=2):
            board.trash(claimed, "alice")
        other.purge(job.uuid)
        for call in (board.get, board.restore, board.purge):
            with pytest.raises(NotFound):
                call(job.uuid)
        assert uuids_of(board.trashed()) == [kept.uuid]
        assert board.stats().trashed == 1

    def test_a_restored_job_is_cancelled_no_more(self, board: JobBoard) -> None:
        job = board.post("resize")
        claimed = claim_one(board)
        board.cancel(claimed)
        board.trash(claimed, "alice")
        board.restore(job.uuid)
        again = claim_one(board)
        assert again.cancelled is False
        board.abandon(again, "alice")
        assert uuids_of(board.iterjobs()) == [job.uuid]

    def test_a_job_can_go_through_the_trash_many_times(self, board: JobBoard) -> None:
        job = board.post("resize", key="k")
        for _ in range(12):
            board.trash(claim_one(board), "alice", reason="broken")
            assert board.restore(job.uuid).record.state is JobState.UNCLAIMED
        board.consume(claim_one(board), "alice")
        assert (board.job_count, list(board.trashed())) == (0, [])


class CancelCases(Case):
    @pytest.mark.parametrize("delay", [None, LONG])
    def test_a_cancelled_job_is_gone(self, board: JobBoard, other: JobBoard, delay: float | None) -> None:
        job, kept = board.post("resize", delay=delay), board.post("resize")
        other.cancel(other.get(job.uuid))
        with pytest.raises(NotFound):
            board.get(job.uuid)
        assert uuids_of(board.iterjobs(states=list(JobState))) == [kept.uuid]
        assert board.job_count == 1

    def test_the_owner_of_a_cancelled_job_is_told(self, board: JobBoard, other: JobBoard) -> None:
        board.post("resize")
        job = claim_one(board)
        assert job.cancelled is False
        other.cancel(other.get(job.uuid))
        assert job.cancelled is True
        assert (state_of(board, job), board.find_owner(job)) == (JobState.CLAIMED, "alice")

    def test_the_owner_of_a_cancelled_job_may_still_work_on(self, board: JobBoard) -> None:
        board.post("resize")
        job = claim_one(board)
        board.cancel(job)
        board.extend(job, "alice", LONG)
        board.checkpoint(job, "alice", "half")
        board.consume(job, "alice", "done all the same")
        assert (job.state, job.result) == (JobState.COMPLETE, "done all the same")

    def test_a_cancelled_job_may_be_trashed_by_its_owner(self, board: JobBoard) -> None:
        board.post("resize")
        job = claim_one(board)
        board.cancel(job)
        board.trash(job, "alice", reason="broken")
        assert state_of(board, job) is JobState.TRASHED

    @pytest.mark.parametrize("options", [{}, {"delay": LONG}, {"counted": False}])
    def test_a_cancelled_job_is_gone_once_abandoned(self, board: JobBoard, options: dict[str, Any]) -> None:
        board.post("resize", key="k")
        job = claim_one(board)
        board.cancel(job)
        board.abandon(job, "alice", **options)
        with pytest.raises(NotFound):
            board.get(job.uuid)
        assert board.job_count == 0
        board.post("resize", key="k")

    def test_a_cancelled_job_is_gone_once_released(self, board: JobBoard) -> None:
        board.post("resize")
        job = claim_one(board)
        board.cancel(job)
        board.release(job, reason="its host is gone")
        with pytest.raises(NotFound):
            board.get(job.uuid)
        assert board.job_count == 0

    @needs(expiry="time")
    @per_shard
    def test_a_cancelled_job_is_gone_once_its_claim_expires(self, board: JobBoard) -> None:
        board.post("resize")
        witness = board.post("witness")
        job = claim_one(board, expiry=SHORT)
        board.cancel(job)
        board.claim(witness, "alice", SHORT)
        until_expired(board, witness)
        with pytest.raises(NotFound):
            board.get(job.uuid)
        assert (uuids_of(board.iterjobs()), board.claim_next("bob", ["resize"])) == ([witness.uuid], [])

    def test_a_cancel_asked_twice_is_one(self, board: JobBoard) -> None:
        board.post("resize")
        job = claim_one(board)
        board.cancel(job)
        before = snapshot(board, job)
        board.cancel(job)
        assert snapshot(board, job) == before

    @per_shard
    def test_what_has_ended_cannot_be_cancelled(self, board: JobBoard) -> None:
        consumed, trashed, gone = (board.post("resize") for _ in range(3))
        board.consume(claim_one(board), "alice", 1)
        board.trash(claim_one(board), "alice")
        board.cancel(gone)
        for job in (consumed, trashed, gone):
            with pytest.raises(NotFound):
                board.cancel(job)
        assert (state_of(board, consumed), state_of(board, trashed)) == (JobState.COMPLETE, JobState.TRASHED)


class PauseCases(Case):
    def test_a_paused_name_is_not_claimed(self, board: JobBoard, other: JobBoard) -> None:
        job, free = board.post("resize", priority=JobPriority.HIGH), board.post("rotate")
        board.pause("resize")
        assert other.paused() == {"resize"}
        with pytest.raises(UnclaimableJob):
            other.claim(other.get(job.uuid), "bob")
        assert other.claim_next("bob", ["resize"], limit=9) == []
        assert other.claim_next("bob", limit=9) == [free]
        assert (state_of(board, job), job.attempts) == (JobState.UNCLAIMED, 0)

    def test_no_job_of_a_paused_board_is_claimed(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        board.pause()
        assert other.paused() == {None}
        with pytest.raises(UnclaimableJob):
            other.claim(other.get(job.uuid), "bob")
        assert other.claim_next("bob", limit=9) == other.claim_next("bob", ["resize"], limit=9) == []
        other.resume()
        assert (board.paused(), board.claim_next("alice")) == (set(), [job])

    def test_a_resumed_name_is_claimed_again(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        board.pause("resize")
        other.resume("resize")
        assert (board.paused(), board.claim_next("alice")) == (set(), [job])

    def test_resume_undoes_exactly_that_pause(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.pause()
        board.pause("resize")
        board.pause("rotate")
        board.resume()
        assert (board.paused(), board.claim_next("alice")) == ({"resize", "rotate"}, [])
        board.pause()
        board.resume("resize")
        assert (board.paused(), board.claim_next("alice")) == ({None, "rotate"}, [])
        board.resume()
        assert board.claim_next("alice") == [job]

    def test_pause_and_resume_twice_are_once(self, board: JobBoard) -> None:
        board.pause("resize")
        board.pause("resize")
        board.resume("resize")
        assert board.paused() == set()
        board.resume("resize")
        board.resume()
        assert board.paused() == set()

    def test_claims_that_hold_go_on_through_a_pause(self, board: JobBoard) -> None:
        consumed, abandoned = board.post("resize"), board.post("resize")
        claims = board.claim_next("alice", limit=2)
        board.pause()
        board.extend(claims[0], "alice", LONG)
        board.consume(claims[0], "alice")
        board.abandon(claims[1], "alice")
        assert (state_of(board, consumed), state_of(board, abandoned)) == (JobState.COMPLETE, JobState.UNCLAIMED)

    def test_posting_goes_on_through_a_pause(self, board: JobBoard) -> None:
        board.pause()
        jobs = board.post_many([Posting("resize") for _ in range(12)])
        assert uuids_of(board.iterjobs(only_unclaimed=True)) == uuids_of(jobs)
        board.resume()
        assert board.claim_next("alice", limit=12) == jobs

    @pytest.mark.parametrize("name", ["größe/{a}*", "with spaces", "None", "*"])
    def test_any_name_can_be_paused_also_one_that_nobody_posted(self, board: JobBoard, name: str) -> None:
        board.pause(name)
        assert board.paused() == {name}
        free = board.post("resize")
        board.post(name)
        assert board.claim_next("alice", limit=9) == [free]
        board.resume(name)
        assert len(board.claim_next("alice", limit=9)) == 1

    def test_a_pause_outlives_its_client(self, harness: Harness, board: JobBoard, other: JobBoard) -> None:
        other.pause("resize")
        other.close()
        assert board.paused() == harness.board(board.name).paused() == {"resize"}


class AuditCases(Case):
    def test_a_board_that_was_used_in_every_way_is_sound(self, board: JobBoard) -> None:
        jobs = board.post_many(
            [Posting("resize", key=str(n), max_attempts=2, delay=LONG if n % 10 == 9 else None) for n in range(40)]
        )
        for number, job in enumerate(board.claim_next("alice", limit=30, expiry=LONG)):
            if number % 6 == 0:
                board.consume(job, "alice")
            elif number % 6 == 1:
                board.abandon(job, "alice")
            elif number % 6 == 2:
                board.trash(job, "alice")
            elif number % 6 == 3:
                board.release(job, reason="its host is gone")
            elif number % 6 == 4:
                board.cancel(job)
                board.abandon(job, "alice")
        board.cancel(jobs[-1])
        board.restore(next(iter(board.trashed())).uuid)
        board.pause("rotate")
        before = [snapshot(board, job) for job in board.iterjobs(states=list(JobState))]
        assert board.audit() == []
        assert board.audit(repair=True) == []
        assert [snapshot(board, job) for job in board.iterjobs(states=list(JobState))] == before
