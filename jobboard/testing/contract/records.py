"""Records: what has become of a job, and its last changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from jobboard.board import JobBoard, suspend
from jobboard.errors import NotFound
from jobboard.events import EventKind, HistoryEntry
from jobboard.job import Posting
from jobboard.states import JobState
from jobboard.testing.contract.case import LONG, SHORT, Case, claim_one, needs, state_of, until_expired
from jobboard.testing.deadline import eventually
from jobboard.testing.harness import Harness

ANSWERS = ("state", "owner", "last_modified", "attempts", "last_error", "result", "checkpoint", "history", "cancelled")

each_end = pytest.mark.parametrize("end", ["abandon", "trash"])


class RecordCases(Case):
    def test_the_history_tells_a_life_in_order(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        first = board.claim(job, "alice")
        board.abandon(job, "alice", reason="no disk here")
        second = other.claim(other.get(job.uuid), "bob")
        other.trash(job.uuid, "bob", reason="broken")
        other.restore(job.uuid)
        found = board.get(job.uuid)
        history = found.history
        assert found.record.history == history
        assert [(line.kind, line.who, line.token) for line in history[1:5]] == [
            (EventKind.CLAIMED, "alice", first),
            (EventKind.ABANDONED, "alice", first),
            (EventKind.CLAIMED, "bob", second),
            (EventKind.TRASHED, "bob", second),
        ]
        assert (history[0].kind, history[-1].kind) == (EventKind.POSTED, EventKind.RESTORED)
        assert (history[2].reason, history[4].reason) == ("no disk here", "broken")
        assert all(isinstance(line, HistoryEntry) and line.at.tzinfo is not None for line in history)
        assert [line.at for line in history] == sorted(line.at for line in history)
        assert abs(history[-1].at - datetime.now(UTC)) < timedelta(minutes=1)

    def test_the_record_read_by_get_has_the_history(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        seen = board.get(job.uuid)
        assert [line.kind for line in seen.record.history] == [EventKind.POSTED, EventKind.CLAIMED]

    def test_the_history_keeps_the_last_twenty_lines(self, board: JobBoard) -> None:
        job = board.post("resize")
        for n in range(15):
            board.claim(job, "alice", LONG)
            board.abandon(job, "alice", reason=str(n))
        history = job.history
        assert len(history) == 20
        assert [line.reason for line in history if line.kind is EventKind.ABANDONED] == [str(n) for n in range(5, 15)]

    def test_last_modified_moves_with_every_change(self, board: JobBoard) -> None:
        job = board.post("resize")
        moments = [job.last_modified]

        def is_later() -> bool:
            board.claim(job, "alice", LONG)
            board.abandon(job, "alice")
            return job.last_modified > moments[0]

        eventually(is_later)
        assert moments[0].tzinfo is not None
        assert abs(job.last_modified - datetime.now(UTC)) < timedelta(minutes=1)

    def test_the_record_is_what_the_last_read_saw(self, harness: Harness) -> None:
        board, backend = harness.lossy_board()
        other = harness.board(board.name)
        job = board.post("resize")
        seen = board.get(job.uuid)
        other.claim(other.get(job.uuid), "alice")
        backend.calls.clear()
        assert seen.record.state is JobState.UNCLAIMED
        assert sum(backend.calls.values()) == 0
        assert seen.owner == "alice"
        assert (seen.record.state, seen.record.owner) == (JobState.CLAIMED, "alice")
        assert sum(backend.calls.values()) == 1

    def test_each_answer_asks_the_store(self, board: JobBoard, other: JobBoard) -> None:
        mine = board.post("resize")
        seen = other.get(mine.uuid)
        board.claim(mine, "alice", LONG)
        board.checkpoint(mine, "alice", "half")
        assert (seen.state, seen.owner, seen.attempts) == (JobState.CLAIMED, "alice", 1)
        assert (seen.checkpoint, seen.cancelled) == ("half", False)
        board.cancel(mine)
        assert seen.cancelled is True
        board.trash(mine, "alice", reason="broken", error="Traceback")
        assert (seen.state, seen.last_error, seen.history[-1].kind) == (
            JobState.TRASHED, "Traceback", EventKind.TRASHED,
        )  # fmt: skip

    @pytest.mark.parametrize("answer", ANSWERS)
    def test_a_job_that_is_gone_has_no_answers(self, board: JobBoard, answer: str) -> None:
        job = board.post("resize", details={"n": 1})
        board.cancel(job)
        with pytest.raises(NotFound):
            getattr(job, answer)
        assert (job.details, job.record.state) == ({"n": 1}, JobState.UNCLAIMED)

    def test_the_record_of_a_claim_tells_when_it_ends(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        expires_at = other.get(job.uuid).record.expires_at
        assert expires_at == job.record.expires_at
        if expires_at is not None:
            assert expires_at > datetime.now(UTC) + timedelta(seconds=LONG / 2)

    def test_a_later_end_overwrites_the_reason_and_the_error(self, board: JobBoard) -> None:
        job = board.post("resize")
        for n in range(3):
            board.abandon(claim_one(board), "alice", reason=f"reason {n}", error=f"error {n}")
            assert (job.last_error, job.record.reason) == (f"error {n}", f"reason {n}")

    def test_the_completed_record_keeps_the_last_error(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.abandon(claim_one(board), "alice", error="Traceback")
        board.consume(claim_one(board, "bob"), "bob", 1)
        record = board.get(job.uuid).record
        assert (record.state, record.owner, record.attempts, record.last_error) == (
            JobState.COMPLETE, "bob", 2, "Traceback",
        )  # fmt: skip

    def test_a_job_that_was_consumed_has_no_reason(self, board: JobBoard, other: JobBoard) -> None:
        """Whatever ended a run before; the last error stays, of those that failed."""
        jobs = board.post_many([Posting("resize") for _ in range(3)])
        for job in jobs:
            board.claim(job, "alice")
        board.abandon(jobs[0], "alice", reason="runs again", counted=False)
        board.abandon(jobs[1], "alice", reason="no disk", error="Traceback")
        board.release(jobs[2], reason="its host is gone")
        assert all(other.get(job.uuid).record.reason for job in jobs)
        for job in jobs:
            board.claim(job, "alice")
            board.consume(job, "alice")
        seen = [other.get(job.uuid).record for job in jobs]
        assert [(record.reason, record.last_error) for record in seen] == [
            (None, None),
            (None, "Traceback"),
            (None, None),
        ]
        assert [job.record.reason for job in other.iterjobs(states={JobState.COMPLETE})] == [None] * 3

    @each_end
    def test_an_empty_error_is_an_error(self, board: JobBoard, end: str) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        getattr(board, end)(job, "alice", reason="why", error="")
        record = board.get(job.uuid).record
        assert (record.reason, record.last_error) == ("why", "")

    @each_end
    def test_an_empty_reason_is_a_reason(self, board: JobBoard, end: str) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        getattr(board, end)(job, "alice", reason="")
        record = board.get(job.uuid).record
        assert (record.reason, record.last_error, record.history[-1].reason) == ("", "", "")

    @each_end
    def test_an_end_without_a_word_keeps_the_last_error(self, board: JobBoard, end: str) -> None:
        job = board.post("resize")
        board.claim(job, "alice")
        board.abandon(job, "alice", reason="why", error="Traceback")
        board.claim(job, "bob")
        getattr(board, end)(job, "bob")
        record = board.get(job.uuid).record
        assert (record.reason, record.last_error, record.history[-1].reason) == (None, "Traceback", None)

    @pytest.mark.parametrize("reason", [None, ""])
    def test_the_last_attempt_is_no_error_by_itself(self, board: JobBoard, reason: str | None) -> None:
        """The reason says why the job is in the trash; the error is what its owners said of their attempts."""
        job = board.post("resize", max_attempts=1)
        board.claim(job, "alice")
        board.abandon(job, "alice", reason=reason)
        record = board.get(job.uuid).record
        assert (record.state, record.reason) == (JobState.TRASHED, "all 1 attempts are used up")
        assert record.last_error == reason
        assert [line.reason for line in record.history[-2:]] == [reason, record.reason]

    @needs(expiry="time")
    def test_an_owner_is_named_as_it_is_when_its_claim_expires(self, board: JobBoard) -> None:
        job = board.post("resize")
        board.claim(job, owner := 'it\'s \\ "bob" ü\xa0', SHORT)
        until_expired(board, job)
        reason = f"the claim of '{owner}' expired"
        assert (board.get(job.uuid).record.reason, job.history[-1].reason) == (reason, reason)

    @pytest.mark.parametrize("is_named", [True, False], ids=["claim", "claim_next"])
    def test_a_claim_begins_without_the_progress_of_the_one_before(
        self, board: JobBoard, other: JobBoard, is_named: bool
    ) -> None:
        job = board.post("resize")
        claimed = claim_one(board)
        board.extend_many([claimed], "alice", LONG, progress=["half"])
        board.abandon(claimed, "alice")
        assert other.get(job.uuid).record.progress == "half"
        if is_named:
            board.claim(job, "bob", LONG)
        else:
            job = claim_one(board, "bob")
        assert (job.record.progress, other.get(job.uuid).record.progress) == (None, None)

    def test_what_has_ended_shows_its_last_checkpoint_and_progress(self, board: JobBoard, other: JobBoard) -> None:
        board.post_many([Posting("resize") for _ in range(5)])
        done, broken, failed, again, waiting = jobs = board.claim_next("alice", limit=5, expiry=LONG)
        for job in jobs:
            board.checkpoint(job, "alice", {"page": 7})
        board.extend_many(jobs, "alice", LONG, progress=["half"] * 5)
        board.consume(done, "alice")
        board.trash(broken, "alice", reason="why")
        board.abandon(failed, "alice", reason="why", error="Traceback")
        board.abandon(again, "alice", delay=LONG, counted=False)
        suspend(board, waiting, "alice", 0.0, "approved", "it waits")
        records = [other.get(job.uuid).record for job in jobs]
        assert [(record.checkpoint, record.progress) for record in records] == [({"page": 7}, "half")] * 5

    def test_a_moment_that_is_over_is_kept_as_the_last_one(self, board: JobBoard) -> None:
        job = board.post("resize", run_at=datetime.now(UTC) - timedelta(hours=2))
        board.claim(job, "alice")
        run_at = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
        board.abandon(job, "alice", run_at=run_at)
        assert (state_of(board, job), board.get(job.uuid).run_at) == (JobState.UNCLAIMED, run_at)
