"""Posting: what is posted is on the board, as it was sent (promises 1 and 10)."""

from __future__ import annotations

import uuid as uuids
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from jobboard import telemetry
from jobboard.board import JobBoard
from jobboard.codec import MAX_DETAILS, encode
from jobboard.errors import InvalidPosting
from jobboard.logbook import LogBook
from jobboard.states import JobPriority, JobState
from jobboard.testing.contract.case import Case, drain, per_shard, snapshot, uuids_of
from jobboard.testing.harness import Harness

PLAIN: list[Any] = [
    None, True, 0, -(2**63), 2**64 - 1, 1.5, float("inf"), "", "naïve ☃ 🦊", "\x00 control \n", b"", b"\x00\xff",
    [], [1, [2, [3]]], {}, {"deep": {"deeper": [{"deepest": None}]}}, {"": "an empty key"},
]  # fmt: skip

UNICODE = [
    "resize", "größe", "日本語", "🦊🦊", "a/b/c", "/", "..", "{curly}", "*", "with some spaces", " leading",
    "trailing ", "quote'; DROP TABLE jobs; --", '"double"', "back\\slash", "percent%_like", "[a-z]?",
    "semi;colon:colon", "#hash&amp=", "A", "a", "x" * 255, "ß" * 127, "é", "e\u0301",
]  # fmt: skip


class Tracing(telemetry.Recorder):
    """Gives each post the next trace."""

    def __init__(self) -> None:
        self._posts = 0

    def trace_of_post(self, board: str, name: str) -> dict[str, str]:
        self._posts += 1
        return {"traceparent": f"00-ab-cd-{self._posts}"}


class Unplain:
    """Something that pickle would store, and whose code it would run when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("executed",))


CANNOT_TRAVEL: list[tuple[Any, str]] = [
    ({"user": {"id": object()}}, "details.user.id"),
    ({"user": {"id": Unplain()}}, "details.user.id"),
    ({"list": [1, {2, 3}]}, "details.list[1]"),
    ({"naive": datetime(2030, 1, 1)}, "details.naive"),
    ({"big": 2**64}, "details.big"),
    ({"a": {1: "no str"}}, "details.a"),
    ({"text": "\ud800"}, "details.text"),
    ({"call": print}, "details.call"),
]


class PostingCases(Case):
    def test_any_client_reads_back_what_was_posted(self, board: JobBoard, other: JobBoard) -> None:
        job = board.post("resize", details={"path": "/a"})
        assert other.get(job.uuid).details == {"path": "/a"}

    def test_a_client_that_comes_later_reads_back_what_was_posted(self, harness: Harness, board: JobBoard) -> None:
        job = board.post("resize", details={"path": "/a"})
        assert harness.board(board.name).get(job.uuid).details == {"path": "/a"}

    def test_a_job_has_what_it_was_posted_with(self, harness: Harness, board: JobBoard) -> None:
        before = datetime.now(UTC)
        uuid = str(uuids.uuid4())
        posted = board.post(
            "resize", details={"a": 1}, priority=JobPriority.HIGH, key="cat.png", uuid=uuid, max_attempts=7
        )
        for job in (posted, board.get(uuid)):
            assert (job.uuid, job.name, job.details) == (uuid, "resize", {"a": 1})
            assert (job.priority, job.key, job.max_attempts) == (JobPriority.HIGH, "cat.png", 7)
            assert (job.run_at, job.book, job.book_uuid, job.token) == (None, None, None, None)
            assert job.board is board
            assert job.store == harness.backend_class.scheme
            assert abs(job.created_on - before) < timedelta(minutes=1)

    def test_the_trace_of_a_post_reaches_whoever_claims(self, board: JobBoard, other: JobBoard) -> None:
        remove = telemetry.add(Tracing())
        try:
            board.post("resize", details={"n": 1}, uuid=(traced := str(uuids.uuid4())))
            # A repeat is the same job, though it was posted in another trace.
            assert board.post("resize", uuid=traced).details == {"n": 1}
        finally:
            remove()
        board.post("resize")
        jobs = other.claim_next("alice", limit=2)
        assert [(job.trace, job.details) for job in jobs] == [({"traceparent": "00-ab-cd-1"}, {"n": 1}), ({}, {})]

    def test_a_new_job_has_an_empty_record(self, board: JobBoard) -> None:
        record = board.get(board.post("resize").uuid).record
        assert record.state is JobState.UNCLAIMED
        assert (record.attempts, record.owner, record.token, record.expires_at) == (0, None, 0, None)
        assert (record.last_error, record.reason, record.checkpoint, record.result) == (None, None, None, None)

    def test_details_are_an_empty_dict_by_default(self, board: JobBoard) -> None:
        assert board.get(board.post("resize").uuid).details == {}

    @pytest.mark.parametrize("value", PLAIN, ids=lambda value: ascii(value)[:20])
    def test_plain_data_arrives_as_it_was_sent(self, board: JobBoard, value: Any) -> None:
        arrived = board.get(board.post("resize", details={"value": value}).uuid).details
        assert arrived == {"value": value}
        assert arrived is not None
        assert type(arrived["value"]) is type(value)

    def test_datetimes_arrive_as_the_same_moment(self, board: JobBoard) -> None:
        moment = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30)))
        details = board.get(board.post("resize", details={"at": moment}).uuid).details
        assert details == {"at": moment}

    def test_what_the_caller_changes_later_changes_nothing_on_the_board(self, board: JobBoard) -> None:
        details: dict[str, Any] = {"list": [1]}
        job = board.post("resize", details=details)
        details["list"].append(2)
        assert job.details == {"list": [1]}
        assert board.get(job.uuid).details == {"list": [1]}

    @pytest.mark.parametrize(
        ("details", "path"), CANNOT_TRAVEL, ids=[f"{path}-{n}" for n, (_, path) in enumerate(CANNOT_TRAVEL)]
    )
    def test_the_error_names_the_path_of_what_cannot_be_stored(
        self, board: JobBoard, details: dict[str, Any], path: str
    ) -> None:
        with pytest.raises(InvalidPosting) as caught:
            board.post("resize", details=details)
        assert path in str(caught.value)
        assert isinstance(caught.value, ValueError)
        assert board.job_count == 0

    def test_details_of_512_kib_arrive(self, board: JobBoard) -> None:
        overhead = len(encode("details", {"bytes": bytes(70_000)}).data) - 70_000
        details = {"bytes": b"\xa5" * (MAX_DETAILS - overhead)}
        assert len(encode("details", details).data) == MAX_DETAILS == 512 * 1024
        job = board.post("resize", details=details)
        assert board.get(job.uuid).details == details
        assert next(drain(board)).details == details

    def test_details_of_one_byte_more_are_refused(self, board: JobBoard) -> None:
        overhead = len(encode("details", {"bytes": bytes(70_000)}).data) - 70_000
        with pytest.raises(InvalidPosting, match="512|524288"):
            board.post("resize", details={"bytes": bytes(MAX_DETAILS - overhead + 1)})
        assert board.job_count == 0

    def test_the_largest_details_are_an_option(self, harness: Harness) -> None:
        board = harness.board(largest_details=100)
        board.post("resize", details={"text": "x" * 80})
        with pytest.raises(InvalidPosting):
            board.post("resize", details={"text": "x" * 100})
        assert board.job_count == 1

    @pytest.mark.parametrize("text", UNICODE, ids=lambda text: ascii(text)[1:21])
    def test_any_text_can_be_a_name_a_key_and_an_owner(self, board: JobBoard, text: str) -> None:
        board.post("decoy", key="decoy")
        job = board.post(text, key=text)
        assert (board.get(job.uuid).name, board.get(job.uuid).key) == (text, text)
        assert board.find(text, text).uuid == job.uuid
        assert uuids_of(board.iterjobs(names=[text])) == [job.uuid]
        assert board.stats().names[text].unclaimed == 1
        [claimed] = board.claim_next(text, names=[text], limit=5)
        assert (claimed.uuid, board.find_owner(claimed)) == (job.uuid, text)
        board.consume(claimed, text)
        assert uuids_of(board.iterjobs()) == [board.find("decoy", "decoy").uuid]

    def test_names_that_differ_only_in_case_or_form_are_different(self, board: JobBoard) -> None:
        names = ["a", "A", "é", "e\u0301", "a ", " a"]
        jobs = {name: board.post(name, key="k") for name in names}
        for name in names:
            assert uuids_of(board.iterjobs(names=[name])) == [jobs[name].uuid]
            assert board.find(name, "k").uuid == jobs[name].uuid

    def test_the_same_uuid_posted_twice_is_one_job(self, board: JobBoard) -> None:
        uuid = str(uuids.uuid4())
        first = board.post("resize", details={"n": 1}, uuid=uuid)
        before = snapshot(board, first)
        again = board.post("resize", details={"n": 2}, uuid=uuid)
        assert (again.uuid, again.sequence, again.details) == (uuid, first.sequence, {"n": 1})
        assert snapshot(board, first) == before
        assert board.job_count == 1

    def test_a_uuid_with_a_key_posted_twice_is_one_job(self, board: JobBoard) -> None:
        uuid = uuids.uuid4()
        first = board.post("resize", key="cat.png", uuid=uuid)
        assert board.post("resize", key="cat.png", uuid=uuid).sequence == first.sequence
        assert board.job_count == 1

    def test_the_uuid_of_a_claimed_job_posted_again_leaves_the_claim(self, board: JobBoard) -> None:
        uuid = uuids.uuid4()
        job = board.post("resize", uuid=uuid)
        token = board.claim(job, "alice")
        assert board.post("resize", uuid=uuid).record.token == token
        board.consume(job, "alice")

    def test_the_uuid_of_a_consumed_job_is_not_posted_again(self, board: JobBoard) -> None:
        uuid = uuids.uuid4()
        board.post("resize", uuid=uuid)
        assert len(list(drain(board))) == 1
        assert board.post("resize", uuid=uuid).record.state is JobState.COMPLETE
        assert (board.job_count, board.claim_next("alice")) == (0, [])

    def test_a_uuid_object_and_its_text_are_the_same(self, board: JobBoard) -> None:
        uuid = uuids.uuid4()
        assert board.post("resize", uuid=uuid).uuid == str(uuid)
        assert board.get(uuid).uuid == board.get(str(uuid).upper()).uuid == str(uuid)  # type: ignore[arg-type,unused-ignore]

    @per_shard
    def test_sequences_grow_with_every_post_of_any_client(self, board: JobBoard, other: JobBoard) -> None:
        sequences = [client.post("resize").sequence for client in (board, other) * 6]
        assert sequences == sorted(set(sequences))

    def test_a_priority_may_be_given_by_its_name(self, board: JobBoard) -> None:
        assert board.post("resize", priority="very_high").priority is JobPriority.VERY_HIGH  # type: ignore[arg-type,unused-ignore]

    def test_a_job_points_at_its_book(self, board: JobBoard) -> None:
        book = LogBook("the journal of cat.png")
        board.save_book(book)
        job = board.get(board.post("resize", book=book).uuid)
        assert (job.book_uuid, job.book_name) == (book.uuid, "the journal of cat.png")
        assert job.book is not None
        assert job.book.uuid == book.uuid

    def test_repr_never_shows_details(self, board: JobBoard) -> None:
        job = board.post("resize", details={"password": "hunter2"})
        board.claim(job, "alice")
        shown = [repr(job), repr(job.record), repr(board), repr(board.get(job.uuid)), repr(job.history)]
        assert not any("hunter2" in text for text in shown)

    def test_the_same_job_read_twice_is_equal(self, board: JobBoard) -> None:
        job, unlike = board.post("resize"), board.post("resize")
        assert job == board.get(job.uuid) != unlike
        assert len({job, board.get(job.uuid), unlike}) == 2

    def test_job_count_is_that_of_the_live_jobs(self, board: JobBoard, other: JobBoard) -> None:
        board.post("resize")
        board.post("resize", delay=600)
        jobs = [board.post("resize") for _ in range(4)]
        assert (board.job_count, other.job_count) == (6, 6)
        for job in jobs:
            board.claim(job, "alice")
        assert board.job_count == 6
        board.consume(jobs[0], "alice")
        board.trash(jobs[1], "alice", reason="broken")
        board.abandon(jobs[2], "alice")
        board.cancel(jobs[2])
        assert (board.job_count, other.job_count) == (3, 3)
