"""Keys of an etcd board that hold garbage: whichever it is, the rest of the board works, and an audit mends it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.fixtures import a_harness, a_server
from harnesses.server_harness import GARBAGE
from servers.etcd_servers import EtcdServer

from jobboard import Cron, Entity, JobBoard, JobState, LogBook, NotFound, Schedule
from jobboard.backends.etcd import EtcdBackend
from jobboard.backends.etcd.events import pack_events, unpack_events
from jobboard.backends.etcd.stored import Hint, StoredClaim, stored_job_of
from jobboard.backends.etcd.txn import Txn, put, scan_prefix
from jobboard.backends.kv.codec import pack

LONG = 600.0


server = a_server(EtcdServer)
harness = a_harness(EtcdHarness)


@pytest.fixture
def board(harness: EtcdHarness) -> JobBoard:
    """A board that has one of everything."""
    board = harness.board()
    board.post("resize", key="k")
    board.post("resize", delay=LONG)
    for end in (None, "trash", "consume"):
        job = board.post("resize", priority="high")
        board.claim(job, "alice", LONG)
        if end is not None:
            getattr(board, end)(job, "alice")
    board.register_entity(Entity("conductor", "a"))
    book = LogBook("journal")
    book.named["a"] = 1
    board.save_book(book)
    board.pause("others")
    board.schedules.add(Schedule("nightly", Cron("0 3 * * *"), "rotate"))
    return board


PLACES: dict[str, Callable[[bytes], bool]] = {
    "the record of a live job": lambda key: key.startswith(b"live/96"),
    "the record of a claimed job": lambda key: key.startswith(b"live/95"),
    "a claim": lambda key: key.startswith(b"claim/"),
    "the record of a completed job": lambda key: key.startswith(b"done/"),
    "the record of a job in the trash": lambda key: key.startswith(b"trash/"),
    "a place among all": lambda key: key.startswith(b"ready/"),
    "a place among those of a name": lambda key: key.startswith(b"line/resize/u/"),
    "a delayed place": lambda key: key.startswith(b"line/resize/d/"),
    "a timer": lambda key: key.startswith(b"timer/"),
    "a uuid": lambda key: key.startswith(b"uuid/"),
    "a key": lambda key: key.startswith(b"key/"),
    "the sequence": lambda key: key == b"sequence",
    "a pause": lambda key: key.startswith(b"paused/"),
    "a participant": lambda key: key.startswith(b"entity/"),
    "a book": lambda key: key.startswith(b"book/"),
    "an entry of a book": lambda key: key.startswith(b"entry/"),
    "a schedule": lambda key: key.startswith(b"schedule/"),
    "the place of a schedule": lambda key: key.startswith(b"due/"),
    "an event": lambda key: key.startswith(b"watch/event/"),
    "a session": lambda key: key.startswith(b"watch/session/"),
}


def spoil(board: JobBoard, place: Callable[[bytes], bool], garbage: bytes = GARBAGE) -> None:
    """Overwrite every key of a kind, leaving the leases as they are."""
    backend = board._backend
    assert isinstance(backend, EtcdBackend)
    root = backend.keys.root
    [found] = backend.connection.read([scan_prefix(root)])
    bad = [put(kv.key, garbage, kv.lease) for kv in found.kvs if place(kv.key[len(root) :])]
    assert bad
    backend.connection.send(Txn(then=bad))


@pytest.mark.parametrize("garbage", [GARBAGE, pack([7] * 12)], ids=["bytes", "numbers"])
@pytest.mark.parametrize("place", PLACES)
def test_garbage_harms_nobody_else(harness: EtcdHarness, board: JobBoard, place: str, garbage: bytes) -> None:
    received: list[str | None] = []
    board.subscribe(lambda event: received.append(event.uuid))
    spoil(board, PLACES[place], garbage)
    check_that_others_work(harness, board)


def test_keys_that_nobody_writes_harm_nobody(harness: EtcdHarness, board: JobBoard) -> None:
    backend = board._backend
    assert isinstance(backend, EtcdBackend)
    keys = backend.keys
    prefixes = (keys.live, keys.done, keys.trashed, keys.ready_jobs, keys.queues, keys.claims, keys.timers, keys.unique,
                keys.jobs, keys.sessions, keys.events, keys.entities, keys.books, keys.schedules, keys.due, keys.edges,
                keys.children, keys.marks, keys.steps, keys.signals, keys.kept, keys.guards, keys.limits,
                keys.limited, keys.waiting, keys.running, keys.entries)  # fmt: skip
    steps = [put(prefix + name, GARBAGE) for prefix in prefixes for name in (b"\xff\xfe", b"0/0/0", b"9" * 30)]
    backend.connection.send(Txn(then=steps))
    check_that_others_work(harness, board)


def check_that_others_work(harness: EtcdHarness, board: JobBoard) -> None:
    """Do everything on a board of which a part is damaged, and mend it."""
    other = harness.board(board.name)
    assert other.paused() == {pause.name for pause in other.pauses()} == {"others"}
    assert isinstance(other.entities(), list)
    assert isinstance(list(other.schedules), list)
    other._backend.schedules.due(9)
    posted = other.post("zebra", key="z", priority="very_high", details={"n": 1})
    assert posted in list(other.iterjobs(states=list(JobState)))
    assert posted in list(other.iterjobs(names=["zebra"]))
    assert posted in list(other.wait(1))
    assert other.stats().names["zebra"].unclaimed == 1
    assert other.find("zebra", "z") == posted
    [job] = other.claim_next("bob", expiry=LONG)
    assert job == posted
    other.consume(job, "bob", "done")
    # What was spoiled, too, can be claimed, or is in the trash.
    while other.claim_next("bob", expiry=LONG):
        pass
    other.audit(repair=True)
    assert other.audit() == []


def test_a_schedule_of_garbage_can_be_seen_and_removed(harness: EtcdHarness, board: JobBoard) -> None:
    board.schedules.add(Schedule("hourly", Cron("0 * * * *"), "rotate"))
    spoil(board, lambda key: key.endswith(b"/nightly"))
    other = harness.board(board.name)
    assert [schedule.id for schedule in other.schedules] == ["hourly"]
    assert [broken.id for broken in other.schedules.unreadable()] == ["nightly"]
    assert not other._backend.schedules.due(9).rows
    assert [broken.id for broken in other.schedules.unreadable()] == ["nightly"]
    other.schedules.remove("nightly")
    assert other.schedules.unreadable() == []
    with pytest.raises(NotFound):
        other.schedules.get("nightly")


def test_a_schedule_whose_place_is_garbage_is_put_back_into_the_line(harness: EtcdHarness, board: JobBoard) -> None:
    before = board.schedules.get("nightly").next_fire_time
    spoil(board, lambda key: key.startswith(b"due/"))
    other = harness.board(board.name)
    assert other._backend.schedules.due(9).next_in is not None
    assert [schedule.next_fire_time for schedule in other.schedules] == [before]


# -- values that are nearly right --------------------------------------------------------------------------------------

ODD: tuple[Any, ...] = (None, -1, 2**63, math.nan, "x", b"\xff", [], {}, True, [None])


def altered(value: Any) -> Iterator[Any]:
    """Iterate over what becomes of plain data when one item of it, at any depth, is another."""
    yield from ODD
    for at, item in enumerate(value if isinstance(value, list) else ()):
        for other in altered(item):
            yield [*value[:at], other, *value[at + 1 :]]


def test_what_is_read_is_what_somebody_can_have_written(board: JobBoard) -> None:
    backend = board._backend
    assert isinstance(backend, EtcdBackend)
    keys = backend.keys
    records, claims, places, events = backend.connection.read(
        [scan_prefix(prefix) for prefix in (keys.live, keys.claims, keys.ready_jobs, keys.events)]
    )
    readers: list[tuple[bytes, Callable[[bytes], object]]] = [
        (records.kvs[0].value, lambda data: stored_job_of(data).packed()),
        (claims.kvs[0].value, lambda data: StoredClaim.of(data).packed()),
        (places.kvs[0].value, lambda data: (hint := Hint.of(data)) and hint.packed()),
        (events.kvs[0].value, lambda data: pack_events(list(unpack_events(data)))),
    ]
    for data, read in readers:
        assert read(data) == data
        for value in altered(msgpack.unpackb(data)):
            with contextlib.suppress(ValueError):
                read(msgpack.packb(value))


def test_entries_without_their_book_are_found_and_removed(board: JobBoard) -> None:
    backend = board._backend
    assert isinstance(backend, EtcdBackend)
    book = LogBook("journal")
    backend.connection.send(Txn(then=[put(backend.keys.entries_of(book.uuid) + b"ea", b"\x01")]))
    assert [(finding.uuid, finding.repaired) for finding in board.audit()] == [(None, False)]
    board.save_book(book)
    assert (board.load_book(book.uuid).named, board.audit()) == ({}, [])
    backend.connection.send(Txn(then=[put(backend.keys.entries_of(LogBook("other").uuid) + b"ea", b"\x01")]))
    assert [finding.repaired for finding in board.audit(repair=True)] == [True]
    assert board.audit() == []
