"""Newer formats: a client that can't read one leaves it alone, says so once, and continues (promise 11)."""

from __future__ import annotations

import logging

import msgpack
import pytest

from jobboard.backends.book_rows import BookPart, BookRow, BookSave
from jobboard.backends.rows import ClaimRequest
from jobboard.board import JobBoard
from jobboard.codec import encode
from jobboard.conductor import Conductor, Handlers
from jobboard.errors import BoardUnavailable, NotFound, UnclaimableJob, UnreadableSchedule
from jobboard.events import EventKind
from jobboard.job import Job
from jobboard.scheduler import Scheduler
from jobboard.states import JobState
from jobboard.testing.contract.case import (
    LONG,
    Case,
    claim_one,
    drain,
    first_waited_for,
    needs,
    per_shard,
    snapshot,
    state_of,
    uuids_of,
)
from jobboard.testing.contract.clockwork import fire, hourly, overdue, spoil, stored
from jobboard.testing.contract.corruption import READS
from jobboard.testing.contract.poison import post_body
from jobboard.testing.deadline import eventually
from jobboard.testing.faults import LossyBackend
from jobboard.testing.harness import Harness

#: What a later jobboard may write; this one knows only how it begins.
NEWER_BODY = bytes(msgpack.packb([4, {"book": None}, msgpack.ExtType(9, b"new")])) + b"anything"
NEWER_SCHEDULE = bytes(msgpack.packb([3, "of another shape"]))


def claim_as_newer(board: JobBoard, uuid: str) -> bool:
    """Claim at the backend, as a client does that can read the posting."""
    claimed = board._backend.jobs.claim_next(ClaimRequest("a newer client", "a claim", LONG), None, 1)
    assert [row.uuid for row in claimed] in ([], [uuid])
    assert all((row.body, row.attempts) == (NEWER_BODY, 1) for row in claimed)
    return bool(claimed)


class NewerCases(Case):
    @pytest.fixture(autouse=True)
    def _short_delays(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("jobboard.client.newer_formats._FIRST_DELAY", 0.05)

    @pytest.mark.parametrize("read", READS)
    def test_a_posting_of_a_newer_format_is_left_to_newer_clients(self, board: JobBoard, read: str) -> None:
        one, newer, three = board.post("resize"), post_body(board, NEWER_BODY), board.post("resize")
        assert uuids_of(READS[read](board)) == [one.uuid, three.uuid]
        assert (board.stats().trashed, board.job_count) == (0, 3)
        seen = board.get(newer)
        assert (seen.raw, seen.details, seen.record.attempts) == (NEWER_BODY, None, 0)
        assert board.audit(repair=True) == []
        for job in board.claim_next("alice", limit=3, expiry=LONG):
            board.consume(job, "alice")
        board.claim_next("alice", limit=3, expiry=LONG)
        eventually(lambda: claim_as_newer(board, newer))

    def test_one_claim_finds_what_is_behind_many_of_a_newer_format(
        self, board: JobBoard, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # None of them comes back while this runs.
        monkeypatch.setattr("jobboard.client.newer_formats._FIRST_DELAY", LONG)
        newer = [post_body(board, NEWER_BODY) for _ in range(20)]
        job = board.post("resize")
        with caplog.at_level(logging.WARNING, "jobboard.board"):
            assert board.claim_next("alice") == [job]
            assert board.claim_next("alice") == []
        assert len(caplog.records) == 1
        assert "newer" in caplog.text
        assert "'resize'" in caplog.text
        assert {state_of(board, board.get(uuid)) for uuid in newer} == {JobState.DELAYED}

    def test_a_claim_by_its_uuid_gives_it_back(self, board: JobBoard) -> None:
        newer = post_body(board, NEWER_BODY)
        with pytest.raises(UnclaimableJob, match="newer"):
            board.claim(newer, "alice")
        job = board.get(newer)
        assert (job.record.owner, job.record.attempts) == (None, 0)
        assert EventKind.ABANDONED in [entry.kind for entry in job.record.history]

    def test_waiting_beside_one_of_a_newer_format_does_not_spin(self, client: tuple[JobBoard, LossyBackend]) -> None:
        board, counted = client
        post_body(board, NEWER_BODY)
        before = sum(counted.calls.values())
        assert first_waited_for(board, 0.5) is None
        assert sum(counted.calls.values()) - before < 15

    def test_waiting_beside_one_of_a_newer_format_wakes_for_another(self, board: JobBoard, other: JobBoard) -> None:
        post_body(board, NEWER_BODY)
        assert first_waited_for(board, 0.0) is None
        job = other.post("resize")
        assert first_waited_for(board, 5.0) == job

    def test_a_conductor_works_past_one_of_a_newer_format(self, board: JobBoard) -> None:
        newer, job = post_body(board, NEWER_BODY), board.post("resize")
        handlers = Handlers()
        handlers.add("resize", lambda job: None)
        conductor = Conductor("mill", board, handlers)
        conductor.start()
        try:
            eventually(lambda: _is_gone(board, job))
            assert board.get(newer).record.attempts <= 1
        finally:
            conductor.stop()
        assert board.stats().trashed == 0
        eventually(lambda: claim_as_newer(board, newer))

    def test_a_schedule_of_a_newer_format_is_left_to_newer_schedulers(
        self, board: JobBoard, other: JobBoard, caplog: pytest.LogCaptureFixture
    ) -> None:
        board.schedules.add(hourly("newer"))
        spoil(board, "newer", NEWER_SCHEDULE)
        before = stored(board, "newer")
        overdue(board, hourly("good"))
        with caplog.at_level(logging.WARNING, "jobboard.board"):
            assert (fire(other), fire(other)) == (1, 0)
        assert len(caplog.records) == 1
        assert stored(board, "newer") == before
        assert [schedule.id for schedule in other.schedules] == ["good"]
        assert [broken.id for broken in other.schedules.unreadable()] == ["newer"]
        assert other.audit(repair=True) == []
        with pytest.raises(UnreadableSchedule, match="upgrade"):
            other.schedules.add(hourly("newer"), if_exists="replace")
        assert stored(board, "newer") == before
        other.schedules.remove("newer")

    def test_a_scheduler_finds_what_is_behind_many_of_a_newer_format(
        self, board: JobBoard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobboard.scheduler._MAX_DUE", 2)
        for number in range(5):
            board.schedules.add(hourly(f"newer {number}"))
            spoil(board, f"newer {number}", NEWER_SCHEDULE)
        overdue(board, hourly("younger"))
        overdue(board, hourly("younger still"))
        scheduler = Scheduler(board)
        scheduler.start()
        try:
            eventually(lambda: board.job_count == 2)
        finally:
            scheduler.stop()

    def test_a_book_of_a_newer_format_is_not_overwritten(self, board: JobBoard) -> None:
        uuid = "00000000-0000-4000-8000-000000000001"
        body = encode("book", {"name": "b", "meta": {}, "entries": [], "new": 1}).data
        board._backend.books.save(BookSave(uuid, "1", None, body))
        with pytest.raises(BoardUnavailable, match="other fields"):
            board.load_book(uuid)
        assert board._backend.books.load(uuid, None, 10) == BookPart(BookRow(uuid, "1", body), [], None)

    @needs(processes=True)
    @per_shard
    def test_a_board_of_another_layout_is_refused_by_name_before_anything_changes(self, harness: Harness) -> None:
        board = harness.board()
        first, second, third = (board.post("resize") for _ in range(3))
        board.consume(claim_one(board), "alice")
        before = [snapshot(board, job) for job in (first, second, third)]
        ours = harness.write_layout(board, "99")
        try:
            with pytest.raises(BoardUnavailable, match=rf"99\b.*\b{ours}\b"):
                harness.board(board.name)
            assert [snapshot(board, job) for job in (first, second, third)] == before
        finally:
            assert harness.write_layout(board, ours) == "99"
        assert uuids_of(drain(harness.board(board.name))) == [second.uuid, third.uuid]


def _is_gone(board: JobBoard, job: Job) -> bool:
    try:
        return board.get(job.uuid).record.state is JobState.COMPLETE
    except NotFound:
        return True
