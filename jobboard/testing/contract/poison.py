"""Poison: bytes that break a decoder harm only the entry that they are in (promise 11)."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from jobboard.backends.book_rows import BookSave
from jobboard.backends.rows import Consumption, EntityRow, Extension, Fence, NewJob
from jobboard.board import JobBoard
from jobboard.codec import encode
from jobboard.conductor import Conductor, Handlers
from jobboard.errors import BoardUnavailable, UnclaimableJob, UnreadableRecord, UnreadableSchedule
from jobboard.job import Job
from jobboard.operate.schedules import schedule_rows
from jobboard.payload import Payload, pack_payload
from jobboard.record import Undecodable
from jobboard.schedules.schedule import Schedule
from jobboard.schedules.triggers import Every
from jobboard.states import JobPriority, JobState
from jobboard.testing.contract.case import LONG, Case, claim_one, per_shard, uuids_of
from jobboard.testing.contract.clockwork import fire, hourly, overdue, spoil, stored
from jobboard.testing.contract.corruption import READS
from jobboard.testing.deadline import eventually

_PLAIN = msgpack.packb([1, None, None, None, None])


def _with_fire_time(value: Any) -> bytes:
    return bytes(msgpack.packb([1, None, None, "nightly", value])) + b"\x80"


def _with_details(packed: bytes) -> bytes:
    return bytes(_PLAIN + b"\x81\xa1x" + packed)


#: Values that break what reads them: moments outside of every calendar, keys that are no text, and so on.
BAD_VALUES = {
    "a moment of 2**62": b"\xc7\x0c\xff" + bytes(4) + (2**62).to_bytes(8, "big"),
    "a moment of the year 10000": bytes(msgpack.packb(msgpack.Timestamp(253402300800))),
    "a moment before the year 1": bytes(msgpack.packb(msgpack.Timestamp(-(2**40)))),
    "a key of bytes": b"\x81\xc4\x01k\x01",
    "a key that is a number": b"\x81\x01\x01",
    "an extension": b"\xd4\x05\x00",
    "a deep nest": b"\x91" * 300 + b"\x90",
    "a deeper nest": b"\x91" * 5000 + b"\x90",
    "a list of 2**31 items": b"\xdd\x7f\xff\xff\xff",
    "a text that is no UTF-8": b"\xa2\xff\xfe",
    "nothing": b"",
    "a byte that begins nothing": b"\xc1",
}  # fmt: skip

BAD_BODIES = {
    "a fire time that is a text": _with_fire_time("noon"),
    "a fire time that is a list": _with_fire_time([1]),
    "a fire time of 1e300": _with_fire_time(1e300),
    "a fire time of 2**62": _with_fire_time(2**62),
    "a fire time that is no number": _with_fire_time(float("nan")),
    "a fire time that is true": _with_fire_time(True),
    "a book of a number": bytes(msgpack.packb([1, 7, None, None, None])) + b"\x80",
    "a head of 2**31 fields": b"\xdd\x7f\xff\xff\xff\x01",
    "a head too short": bytes(msgpack.packb([1])) + b"\x80",
    "a format that is a text": bytes(msgpack.packb(["1", None, None, None, None])) + b"\x80",
    "details that are a list": bytes(_PLAIN) + b"\x90",
} | {f"details with {what}": _with_details(value) for what, value in BAD_VALUES.items()}  # fmt: skip


def post_body(board: JobBoard, body: bytes) -> str:
    """Post any bytes at the backend, where nothing checks them; return the job's uuid."""
    uuid = str(uuids.uuid4())
    board._backend.jobs.post([NewJob(uuid, "resize", int(JobPriority.NORMAL), body)])
    return uuid


def _poisoned(board: JobBoard) -> tuple[list[str], dict[str, bytes]]:
    """Post every bad body between two good ones; return the good ones' uuids, and the bad ones with their bytes."""
    first = board.post("resize", details={"n": 1})
    bad = {post_body(board, body): body for body in BAD_BODIES.values()}
    return [first.uuid, board.post("resize", details={"n": 2}).uuid], bad


def _claim_all(board: JobBoard) -> list[Job]:
    return [job for _ in range(5) for job in board.claim_next("alice", limit=50, expiry=LONG)]


class PoisonCases(Case):
    @per_shard
    @pytest.mark.parametrize("read", READS)
    def test_poisoned_postings_are_quarantined_with_their_bytes(self, board: JobBoard, read: str) -> None:
        good, bad = _poisoned(board)
        assert uuids_of(READS[read](board)) == good
        assert {job.uuid: job.raw for job in board.trashed()} == bad
        assert all("decoded" in (job.record.reason or "") for job in board.trashed())

    def test_poisoned_postings_can_be_looked_at_and_not_claimed(self, board: JobBoard) -> None:
        _, bad = _poisoned(board)
        for uuid, body in bad.items():
            assert (board.get(uuid).raw, board.get(uuid).details) == (body, None)
            with pytest.raises(UnclaimableJob, match="decoded"):
                board.claim(uuid, "alice")
        assert board.stats().trashed == len(bad)

    def test_a_conductor_works_past_poisoned_postings(self, board: JobBoard) -> None:
        good, bad = _poisoned(board)
        handlers, done = Handlers(), []
        handlers.add("resize", lambda job: done.append(job.uuid))
        conductor = Conductor("mill", board, handlers)
        conductor.start()
        try:
            eventually(lambda: board.job_count == 0)
        finally:
            conductor.stop()
        assert sorted(done) == sorted(good)
        assert set(uuids_of(board.trashed())) == set(bad)

    def test_mutated_postings_harm_nobody(self, board: JobBoard) -> None:
        @settings(max_examples=4, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
        @given(st.lists(mutated(_BODIES), min_size=10, max_size=20))
        def post_and_claim(bodies: list[bytes]) -> None:
            posted = {post_body(board, body): body for body in bodies}
            good = board.post("resize")
            claimed = {job.uuid: job for job in _claim_all(board)}
            assert good.uuid in claimed
            trashed = set(uuids_of(board.trashed()))
            for uuid, body in posted.items():
                # In those that are left, only the format number changed, to that of a later jobboard.
                assert uuid in claimed or uuid in trashed or 1 < body[1] < 128
            for job in claimed.values():
                assert isinstance(job.details, dict)
                board.consume(job, "alice")

        post_and_claim()

    @pytest.mark.parametrize("value", BAD_VALUES)
    def test_a_poisoned_record_can_be_looked_at(self, board: JobBoard, value: str) -> None:
        board.post("resize")
        job = claim_one(board)
        fence = Fence(job.uuid, "alice", job.token or 0)
        raw = BAD_VALUES[value] or b"\xc1"
        board._backend.jobs.checkpoint(fence, raw)
        board._backend.jobs.extend([Extension(fence, LONG, raw)])
        [listed] = board.iterjobs()
        record = listed.record
        assert (record.state, record.attempts, record.owner) == (JobState.CLAIMED, 1, "alice")
        assert isinstance(record.checkpoint, Undecodable)
        assert isinstance(record.progress, Undecodable)
        assert record.checkpoint.raw == raw
        with pytest.raises(UnreadableRecord, match=job.uuid):
            _ = job.checkpoint
        board._backend.jobs.consume([Consumption(fence, raw, 60.0)])
        with pytest.raises(UnreadableRecord, match=job.uuid):
            _ = job.result
        assert job.state is JobState.COMPLETE

    def test_a_poisoned_checkpoint_quarantines_its_job(self, board: JobBoard) -> None:
        for _ in range(2):
            board.post("resize")
        job = claim_one(board)
        board._backend.jobs.checkpoint(Fence(job.uuid, "alice", job.token or 0), b"\xc1")
        board.abandon(job, "alice")
        handlers, done = Handlers(), []
        handlers.add("resize", lambda job: done.append(job.uuid))
        conductor = Conductor("mill", board, handlers)
        conductor.start()
        try:
            eventually(lambda: board.job_count == 0)
        finally:
            conductor.stop()
        [trashed] = board.trashed()
        assert (trashed.uuid, len(done)) == (job.uuid, 1)
        assert "checkpoint" in (trashed.record.reason or "")

    @pytest.mark.parametrize("value", BAD_VALUES)
    def test_a_poisoned_book_harms_no_other(self, board: JobBoard, value: str) -> None:
        bad, good = str(uuids.uuid4()), str(uuids.uuid4())
        board._backend.books.save(BookSave(bad, "1", None, BAD_VALUES[value] or b"\xc1"))
        board._backend.books.save(
            BookSave(good, "1", None, encode("book", {"name": "b", "meta": {}, "entries": []}).data)
        )
        with pytest.raises(BoardUnavailable, match="decoded"):
            board.load_book(bad)
        assert board.load_book(good).name == "b"
        board.destroy_book(bad)

    def test_poisoned_entities_can_be_seen(self, board: JobBoard) -> None:
        for number, raw in enumerate(BAD_VALUES.values()):
            board._backend.entities.put(EntityRow("worker", f"w{number}", raw or b"\xc1", 60.0))
        board._backend.entities.put(EntityRow("worker", "x", encode("metadata", [1]).data, 60.0))
        seen = board.entities()
        assert len(seen) == len(BAD_VALUES) + 1
        assert all(entity.alive and entity.metadata == {} for entity in seen)

    def test_poisoned_schedules_stop_nothing(self, board: JobBoard, other: JobBoard) -> None:
        bad = _spoil_schedules(board)
        overdue(board, hourly("good"))
        assert fire(other) == 1
        assert [job.schedule_id for job in board.iterjobs()] == ["good"]
        assert [schedule.id for schedule in other.schedules] == ["good"]
        assert {broken.id for broken in other.schedules.unreadable()} == set(bad)
        assert {row["id"]: row["state"] for row in schedule_rows(other)} == {
            "good": "active",
            **dict.fromkeys(bad, "unreadable"),
        }
        assert other.audit(repair=True) == []
        for id in bad:
            with pytest.raises(UnreadableSchedule, match="decoded"):
                other.schedules.get(id)
            other.schedules.remove(id)
        assert other.schedules.unreadable() == []

    def test_a_poisoned_schedule_can_be_replaced(self, board: JobBoard) -> None:
        for id in _spoil_schedules(board):
            board.schedules.add(Schedule(id, Every(hours=1), "write"), if_exists="replace")
        assert board.schedules.unreadable() == []


_BODIES = [
    pack_payload(Payload({"n": 1, "path": "/größe", "opts": {"a": [1.5, None, True]}}))[0],
    pack_payload(Payload({}, str(uuids.UUID(int=9)), "a book", "nightly", 1.7e9))[0],
]


@st.composite
def mutated(draw: Callable[..., Any], records: list[bytes]) -> bytes:
    """Draw a record with some bytes changed, removed or added."""
    record = bytearray(draw(st.sampled_from(records)))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(record)))
        record[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=3))
    return bytes(record) if len(record) > 1 else b"\xc1\xc1"


def _spoil_schedules(board: JobBoard) -> list[str]:
    """Add schedules that are due now, each with other bytes that can't be read; return their ids."""
    board.schedules.add(hourly("model"))
    form, plain, progress = msgpack.unpackb(stored(board, "model").body)
    board.schedules.remove("model")
    bodies = list(BAD_VALUES.values())
    bodies += [msgpack.packb([form, plain, [*progress[:6], live, *progress[7:]]]) for live in ([7], 7, ["x"], None)]
    bodies += [msgpack.packb([form, plain, [time, *progress[1:]]]) for time in ("now", 1e300, None)]
    bodies += [msgpack.packb([form, plain, [progress[0], 1e300, *progress[2:]]])]
    bodies += [msgpack.packb([form, {**plain, **wrong}, progress]) for wrong in ({"job": 7}, {"details": 7}, {"x": 1})]
    bodies += [msgpack.packb([form, plain, progress])]  # of another id
    ids = [f"bad{number}" for number in range(len(bodies))]
    for id, body in zip(ids, bodies, strict=True):
        board.schedules.add(hourly(id))
        spoil(board, id, body or b"\xc1")
    return ids
