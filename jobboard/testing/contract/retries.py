"""Retries: a request whose reply was lost takes effect once, and returns the right answer (promise 8)."""

from __future__ import annotations

import pytest

from jobboard.backends.rows import Verdict
from jobboard.board import JobBoard
from jobboard.errors import AlreadyPosted, ClaimLost, NotFound
from jobboard.job import Posting
from jobboard.logbook import LogBook
from jobboard.participants import Entity
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, Case, claim_one, needs, state_of, uuids_of
from jobboard.testing.faults import Fault, LossyBackend
from jobboard.testing.harness import Harness

each_fault = pytest.mark.parametrize("fault", ["reply", "request"])


class RetryCases(Case):
    @each_fault
    def test_a_post_is_posted_once(self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        lossy.lose("post", fault)
        job = board.post("resize", details={"n": 1}, key="k")
        assert uuids_of(other.iterjobs()) == [job.uuid]
        assert (job.record.state, job.details, len(job.history)) == (JobState.UNCLAIMED, {"n": 1}, 1)

    def test_a_post_is_posted_once_however_often_its_reply_is_lost(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend
    ) -> None:
        lossy.lose("post", "reply", times=3)
        job = board.post("resize")
        assert uuids_of(other.iterjobs()) == [job.uuid]

    @each_fault
    @needs(sharded=False)
    def test_a_batch_is_posted_once(self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        lossy.lose("post", fault)
        jobs = board.post_many([Posting("resize", key=str(n)) for n in range(12)])
        assert uuids_of(other.iterjobs()) == uuids_of(jobs)

    @each_fault
    def test_a_kept_post_returns_the_live_job(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        live = other.post("resize", key="k")
        lossy.lose("post", fault)
        assert board.post("resize", key="k", if_exists="keep") == live
        assert other.job_count == 1

    @each_fault
    def test_a_replacement_is_made_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        live = other.post("resize", key="k", details={"n": 1})
        lossy.lose("post", fault)
        job = board.post("resize", key="k", details={"n": 2}, if_exists="replace")
        assert (job.uuid, job.details, other.job_count) == (live.uuid, {"n": 2}, 1)
        assert [str(line.kind) for line in other.get(live.uuid).history] == ["POSTED", "REPLACED"]

    @each_fault
    def test_a_taken_key_is_refused(self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        live = other.post("resize", key="k")
        lossy.lose("post", fault)
        with pytest.raises(AlreadyPosted) as caught:
            board.post("resize", key="k")
        assert caught.value.uuid == live.uuid
        assert other.job_count == 1

    @each_fault
    def test_a_claim_is_one_attempt(self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        job = board.post("resize")
        lossy.lose("claim", fault)
        token = board.claim(job, "alice", LONG)
        record = other.get(job.uuid).record
        assert (record.attempts, record.owner, record.token) == (1, "alice", token)
        board.consume(job, "alice")

    @each_fault
    def test_claim_next_claims_no_more_than_asked_for(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        jobs = board.post_many([Posting("resize") for _ in range(12)])
        lossy.lose("claim_next", fault)
        claimed = board.claim_next("alice", limit=5, expiry=LONG)
        assert claimed == jobs[:5]
        assert (other.stats().claimed, other.stats().unclaimed) == (5, 7)
        assert {job.attempts for job in claimed} == {1}
        assert board.consume_many(claimed, "alice") == [None] * 5

    @each_fault
    def test_claim_next_of_nothing_is_an_empty_list(self, board: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        lossy.lose("claim_next", fault)
        assert board.claim_next("alice") == []

    @each_fault
    def test_an_extension_holds(self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        board.post("resize")
        job = claim_one(board, expiry=20)
        lossy.lose("extend", fault)
        board.extend(job, "alice", LONG)
        assert other.find_owner(job) == "alice"
        lossy.lose("extend", fault)
        assert board.extend_many([job], "alice", LONG) == [Verdict.DONE]

    @each_fault
    def test_a_consume_is_made_once(self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        board.post("resize")
        job = claim_one(board)
        lossy.lose("consume", fault)
        board.consume(job, "alice", 42)
        seen = other.get(job.uuid)
        assert (seen.record.state, seen.record.result) == (JobState.COMPLETE, 42)
        assert [str(line.kind) for line in seen.history] == ["POSTED", "CLAIMED", "CONSUMED"]

    @each_fault
    def test_a_consume_without_retention_is_made_once(self, harness: Harness, fault: Fault) -> None:
        board, lossy = harness.lossy_board(retention=0)
        board.post("resize")
        job = claim_one(board)
        lossy.lose("consume", fault)
        board.consume(job, "alice", 42)
        assert (board.job_count, list(board.iterjobs(states=list(JobState)))) == (0, [])

    @each_fault
    def test_a_batch_of_consumes_tells_of_each(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        board.post_many([Posting("resize") for _ in range(4)])
        jobs = board.claim_next("alice", limit=4, expiry=LONG)
        other.release(other.get(jobs[2].uuid), reason="its host is gone")
        lossy.lose("consume", fault)
        outcomes = board.consume_many(jobs, "alice")
        assert [type(outcome) for outcome in outcomes] == [type(None), type(None), ClaimLost, type(None)]
        assert (other.job_count, state_of(other, jobs[2])) == (1, JobState.UNCLAIMED)

    @each_fault
    def test_an_abandon_is_made_once(self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        board.post("resize")
        job = claim_one(board)
        lossy.lose("abandon", fault)
        board.abandon(job, "alice", reason="no disk here")
        seen = other.get(job.uuid)
        assert (seen.record.state, seen.record.attempts) == (JobState.UNCLAIMED, 1)
        assert [str(line.kind) for line in seen.history] == ["POSTED", "CLAIMED", "ABANDONED"]

    @each_fault
    def test_an_abandon_of_the_last_attempt_trashes_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        board.post("resize", max_attempts=1)
        job = claim_one(board)
        lossy.lose("abandon", fault)
        board.abandon(job, "alice")
        assert (state_of(other, job), other.stats().trashed) == (JobState.TRASHED, 1)

    @each_fault
    def test_an_abandon_of_a_cancelled_job_takes_it_off_the_board_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        board.post("resize")
        job = claim_one(board)
        other.cancel(other.get(job.uuid))
        lossy.lose("abandon", fault)
        board.abandon(job, "alice")
        assert other.job_count == 0

    @each_fault
    def test_a_trashing_is_made_once(self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        board.post("resize")
        job = claim_one(board)
        lossy.lose("trash", fault)
        board.trash(job, "alice", reason="broken")
        seen = other.get(job.uuid)
        assert (seen.record.state, seen.record.reason) == (JobState.TRASHED, "broken")
        assert [str(line.kind) for line in seen.history] == ["POSTED", "CLAIMED", "TRASHED"]

    @each_fault
    def test_a_forced_trashing_is_made_once(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        job = board.post("resize")
        lossy.lose("trash", fault)
        board.trash(job, by="an operator", reason="runaway")
        assert [str(line.kind) for line in other.get(job.uuid).history] == ["POSTED", "TRASHED"]

    @each_fault
    def test_a_checkpoint_is_written(self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        board.post("resize")
        job = claim_one(board)
        lossy.lose("checkpoint", fault)
        board.checkpoint(job, "alice", "half")
        assert other.get(job.uuid).checkpoint == "half"

    @each_fault
    def test_a_cancel_is_made_once(self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        job, kept = board.post("resize"), board.post("resize")
        lossy.lose("cancel", fault)
        board.cancel(job, by="ada", reason="not wanted")
        assert uuids_of(other.iterjobs()) == [kept.uuid]

    @each_fault
    def test_a_release_breaks_one_claim_only(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        lossy.lose("release", fault)
        board.release(job, by="ada", reason="its host is gone")
        assert [str(line.kind) for line in other.get(job.uuid).history] == ["POSTED", "CLAIMED", "RELEASED"]

    @each_fault
    def test_a_delay_is_ended_once(self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        job = board.post("resize", delay=LONG)
        lossy.lose("run_now", fault)
        assert board.run_now(job, by="ada", reason="she waits")
        assert [str(line.kind) for line in other.get(job.uuid).history] == ["POSTED", "DUE"]

    @each_fault
    def test_a_priority_changes_once(self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        job = board.post("resize")
        lossy.lose("reprioritize", fault)
        assert board.reprioritize(job, "high", by="ada")
        assert [str(line.kind) for line in other.get(job.uuid).history] == ["POSTED", "REPRIORITIZED"]

    @each_fault
    def test_a_restore_is_made_once(self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        job = board.post("resize")
        board.trash(job, by="an operator")
        lossy.lose("restore", fault)
        assert board.restore(job, by="ada", reason="mended").record.state is JobState.UNCLAIMED
        assert [str(line.kind) for line in other.get(job.uuid).history] == ["POSTED", "TRASHED", "RESTORED"]

    @each_fault
    def test_a_purge_is_made_once(self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault) -> None:
        job, kept = board.post("resize"), board.post("resize")
        for each in (job, kept):
            board.trash(each, by="an operator")
        lossy.lose("purge", fault)
        board.purge(job, by="ada", reason="not wanted")
        assert uuids_of(other.trashed()) == [kept.uuid]

    @each_fault
    def test_a_purge_of_a_job_outside_of_the_trash_is_refused(
        self, board: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        job = board.post("resize")
        lossy.lose("purge", fault)
        with pytest.raises(NotFound):
            board.purge(job.uuid)
        assert job.state is JobState.UNCLAIMED

    @each_fault
    def test_a_pause_and_its_end_are_made(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        lossy.lose("maintenance.pause", fault)
        board.pause("resize", by="ada", reason="disk full")
        assert [(pause.name, pause.by, pause.reason) for pause in other.pauses()] == [("resize", "ada", "disk full")]
        lossy.lose("maintenance.resume", fault)
        board.resume("resize")
        assert other.paused() == set()

    @each_fault
    def test_books_and_entities_are_written(
        self, board: JobBoard, other: JobBoard, lossy: LossyBackend, fault: Fault
    ) -> None:
        book, entity = LogBook("journal"), Entity("conductor", "a")
        for primitive in ("books.save", "entities.put", "entities.remove", "books.destroy"):
            lossy.lose(primitive, fault)
        board.save_book(book)
        book.append(n=1)
        board.save_book(book)
        assert list(other.load_book(book.uuid)) == [{"n": 1}]
        board.register_entity(entity)
        assert [seen.name for seen in other.entities()] == ["a"]
        board.remove_entity(entity)
        assert other.entities() == []
        board.destroy_book(book.uuid)
        with pytest.raises(NotFound):
            other.load_book(book.uuid)

    def test_reads_are_repeated(self, board: JobBoard, lossy: LossyBackend) -> None:
        job = board.post("resize", key="k")
        reads = (
            "read",
            "find",
            "page",
            "stats",
            "count",
            "history",
            "maintenance.paused",
            "entities.all",
            "books.page",
        )
        for primitive in reads:
            lossy.lose(primitive)
        assert board.get(job.uuid) == board.find("resize", "k") == job
        assert list(board.iterjobs()) == [job]
        assert (board.stats().unclaimed, board.job_count, board.paused(), board.entities()) == (1, 1, set(), [])
        assert list(board.books()) == []
