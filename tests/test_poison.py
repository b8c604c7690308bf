"""Whatever bytes are in a store: decoders return plain data or raise ``ValueError``, quickly, and nothing else."""

from __future__ import annotations

import time
import tracemalloc
import uuid as uuids
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

import jobboard
from jobboard import codec
from jobboard.backends.rows import JobRow, NewJob
from jobboard.codec import MAX_DEPTH, MAX_ENCODED, NewerFormat, decode, encode
from jobboard.errors import InvalidPosting
from jobboard.events import EventKind
from jobboard.payload import EMPTY_PAYLOAD, Payload, pack_payload, unpack_payload
from jobboard.record import record_of
from jobboard.schedules.progress import FireRecord, Progress
from jobboard.schedules.schedule import Schedule, pack_schedule, unpack_schedule
from jobboard.schedules.triggers import AnyOf, At, Every
from jobboard.states import JobPriority
from jobboard.testing.contract.poison import BAD_BODIES, BAD_VALUES, mutated
from jobboard.validation import is_moment, moment

NOW = datetime(2030, 1, 2, 3, tzinfo=UTC)
BODIES = [
    pack_payload(Payload({"n": 1, "at": NOW, "raw": b"\xff", "deep": [[{"a": [1.5]}]]}))[0],
    pack_payload(Payload({"x": None}, str(uuids.uuid4()), "a book", "nightly", NOW.timestamp()))[0],
]
PROGRESS = Progress(
    1.7e9, 1.8e9, 1, 2, 3, 4, [str(uuids.uuid4())], 1.75e9, "note", None, [FireRecord(EventKind.FIRED, NOW, NOW, "u")]
)
SCHEDULES = [
    pack_schedule(Schedule("id", Every(minutes=5), "job", {"n": 1}, start=NOW), PROGRESS),
    pack_schedule(Schedule("id", AnyOf(At(NOW), Every(hours=1)), "job"), Progress(0.0)),
]


def _read_body(data: bytes) -> None:
    body = unpack_payload(data)
    assert isinstance(body.details, dict)
    assert body.fire_time is None or moment(body.fire_time).timestamp() == pytest.approx(body.fire_time)


def _read_schedule(data: bytes) -> None:
    schedule = unpack_schedule("id", data)
    assert schedule.progress is not None
    assert is_moment(schedule.progress.settled)
    assert all(uuids.UUID(uuid) for uuid in schedule.progress.live)
    _ = schedule.next_fire_time, schedule.state, repr(schedule)


READERS: list[tuple[Callable[[bytes], object], list[bytes]]] = [
    (decode, [body[5:] for body in BODIES]),
    (_read_body, BODIES),
    (_read_schedule, SCHEDULES),
]


@pytest.mark.parametrize(("read", "records"), READERS, ids=["values", "postings", "schedules"])
@given(data=st.data())
def test_bytes_are_read_or_refused(read: Callable[[bytes], object], records: list[bytes], data: st.DataObject) -> None:
    stored = data.draw(st.binary(max_size=80) | mutated(records))
    try:
        read(stored)
    except ValueError:
        pass


@pytest.mark.parametrize("records", [BODIES, SCHEDULES], ids=["postings", "schedules"])
def test_what_is_well_formed_is_read(records: list[bytes]) -> None:
    for record in records:
        (_read_body if records is BODIES else _read_schedule)(record)


@pytest.mark.parametrize("what", BAD_BODIES)
def test_a_poisoned_posting_is_refused(what: str) -> None:
    with pytest.raises(ValueError, match="not a posting"):
        unpack_payload(BAD_BODIES[what])


@given(st.floats() | st.integers(), st.binary(max_size=9) | st.sampled_from(list(BAD_VALUES.values())))
def test_any_record_can_be_looked_at(time: float, value: bytes) -> None:
    row = JobRow(
        "a", "b", int(JobPriority.LOW), 1, time, b"", run_at=time, expires_at=time, last_modified=time,
        checkpoint=value, progress=value, result=value,
    )  # fmt: skip
    assert record_of(row).last_modified.tzinfo is UTC


@pytest.mark.parametrize(
    "data",
    [b"\x91" * 50_000_000, b"\xdd\x02\xfa\xf0\x80" + b"\x90" * 50_000_000, b"\xdd\x7f\xff\xff\xff" * 1000],
    ids=["nested lists", "many lists", "a list that says to be long"],
)
@pytest.mark.parametrize("read", [decode, unpack_payload, lambda data: unpack_schedule("id", data)])
def test_what_would_take_long_or_much_is_refused_at_once(read: Callable[[bytes], object], data: bytes) -> None:
    began = time.process_time()
    for head in (b"", pack_payload(Payload())[0][:-1]):
        with pytest.raises(ValueError):
            read(head + data)
    assert time.process_time() - began < 1.0


def _nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth // 2):
        value = {"a": [value]}
    return value


def test_nesting_is_bounded_alike_in_both_directions() -> None:
    deepest = _nested(MAX_DEPTH)
    assert decode(encode("value", deepest).data) == deepest
    with pytest.raises(InvalidPosting, match=f"deeper than {MAX_DEPTH}"):
        encode("value", [deepest])
    with pytest.raises(ValueError, match=f"deeper than {MAX_DEPTH}"):
        decode(msgpack.packb([deepest]))


@pytest.fixture
def few_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read and write 1,000 lists and dicts in one value, and 200 more that it is stored in."""
    monkeypatch.setattr(codec, "MAX_CONTAINERS", 1_000)
    monkeypatch.setattr(codec, "_MAX_READ_CONTAINERS", 1_200)


@pytest.mark.usefixtures("few_containers")
@pytest.mark.parametrize("empty", [[], {}], ids=["lists", "dicts"])
def test_the_number_of_lists_and_dicts_is_bounded_alike_in_both_directions(empty: Any) -> None:
    most = [empty] * 999
    assert decode(encode("value", most).data) == most
    with pytest.raises(InvalidPosting, match="value can't be stored: it has more than 1000 lists"):
        encode("value", [*most, empty])
    # What a value is stored in has some of its own.
    wrapped = [most, [empty] * 198]
    assert decode(msgpack.packb(wrapped)) == wrapped
    with pytest.raises(ValueError, match="lists and dicts"):
        decode(msgpack.packb([*wrapped, empty]))


@pytest.mark.usefixtures("few_containers")
def test_what_is_refused_for_its_lists_takes_little_memory() -> None:
    bomb = b"\xdd" + (MAX_ENCODED - 5).to_bytes(4, "big") + b"\x90" * (MAX_ENCODED - 5)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="lists and dicts"):
            decode(bomb)
        # The list itself is set aside as long as it says to be, and is not filled.
        assert tracemalloc.get_traced_memory()[1] < 9 * MAX_ENCODED
    finally:
        tracemalloc.stop()


def test_a_job_of_too_many_lists_is_named_and_affects_no_other() -> None:
    with jobboard.backend("lists", "memory://") as board:
        row = NewJob(str(uuids.uuid4()), "bomb", 0, EMPTY_PAYLOAD[:-1] + msgpack.packb({"x": [[]] * 301_000}))
        board._backend.jobs.post([row])
        good = board.post("resize")
        assert [job.uuid for job in board.claim_next("alice", limit=5)] == [good.uuid]
        [bad] = board.trashed()
        assert (bad.uuid, bad.details) == (row.uuid, None)
        assert "lists and dicts" in (bad.record.reason or "")


def test_many_texts_of_what_looks_like_lists_are_no_lists() -> None:
    value = {"text": "\u4e00\u0410" * 300_000, "bytes": b"\x90" * 300_000, "dict": {"a": []}}
    assert decode(encode("value", value, largest=MAX_ENCODED).data) == value


def test_texts_full_of_what_looks_like_lists_are_no_nest() -> None:
    value = {"ü\u0080Ā" * 500: ["\u0090ĄŅ" * 500] * 3}
    assert decode(encode("value", value).data) == value


def test_the_size_is_bounded() -> None:
    assert decode(msgpack.packb(b"x" * (MAX_ENCODED - 5))) == b"x" * (MAX_ENCODED - 5)
    with pytest.raises(ValueError, match=f"no more than {MAX_ENCODED}"):
        decode(msgpack.packb(b"x" * MAX_ENCODED))


@pytest.mark.parametrize("form", [4, 5, 127])
def test_a_newer_format_is_told_from_what_is_none(form: int) -> None:
    for data in (msgpack.packb([form]) + b"\xc1", msgpack.packb([form, 1, 2]), msgpack.packb([form] * 9)):
        with pytest.raises(NewerFormat, match=f"format {form}; this version reads 3"):
            unpack_payload(data)
    with pytest.raises(NewerFormat, match=f"format {form}; this version reads 2"):
        unpack_schedule("id", msgpack.packb([form, "anything"]))


@pytest.mark.parametrize("form", [0, -1, 128, 2**40, True, 1.0, "1", None, [2]])
def test_what_is_no_format_number_is_garbage(form: object) -> None:
    for read in (unpack_payload, lambda data: unpack_schedule("id", data)):
        with pytest.raises(ValueError) as caught:
            read(msgpack.packb([form, {}, None, None, None]) + b"\x80")
        assert not isinstance(caught.value, NewerFormat)
