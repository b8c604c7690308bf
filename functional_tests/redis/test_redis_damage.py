"""Harm done by hand in the keys of a board: it hurts nobody but what was hit, and an audit mends it."""

from __future__ import annotations

import math
import re
import time
import uuid as uuids
from pathlib import Path

import msgpack
import pytest
from harnesses.fixtures import a_board, a_harness, a_server
from harnesses.redis_hand import Hand, a_hand, member_of
from harnesses.redis_harness import RedisHarness
from servers.redis_servers import RedisServer

from jobboard import BoardUnavailable, ClaimLost, Entity, Every, JobBoard, JobState, LogBook, Posting, Schedule, lua
from jobboard.backends.redis.key_types import TYPES, wrong_types
from jobboard.backends.rows import Pause
from jobboard.errors import UnreadableSchedule
from jobboard.testing import eventually
from jobboard.testing.contract.clockwork import firing

LONG = 600.0
#: The first two are no msgpack: one never is, one ends too soon. The others are, but not what should stand there.
GARBAGE = [b"\xc1", b"\xdc\x00\x17", msgpack.packb(7), msgpack.packb([]), msgpack.packb([{}, "soon"])]

server = a_server(RedisServer)
harness = a_harness(RedisHarness)
board = a_board()
hand = a_hand()


def is_mended(board: JobBoard) -> bool:
    """Whether an audit finds something, repairs it, and finds nothing more."""
    found = board.audit()
    board.audit(repair=True)
    return found != [] and board.audit() == []


# -- types -------------------------------------------------------------------------------------------------------------


def test_a_key_of_another_type_is_named_and_may_be_deleted(board: JobBoard, hand: Hand) -> None:
    board.post("a", key="k", lane="l")
    board.post("d", delay=1000)
    board.limits.set(lane="l", running=1)
    board.claim_next("me")
    board.schedules.add(Schedule("s", Every(hours=1), "a"))
    kinds = "counters delayed delayed:d due heads held:l keys lanes names listings"
    for kind in kinds.split():
        hand("DEL", kind)
        hand("SET", kind, "x")
        told = f"{re.escape(hand.key(kind))} is a string, not a .* DEL '{re.escape(hand.key(kind))}'"
        with pytest.raises(BoardUnavailable, match=told):
            board.audit(repair=True)
        hand("DEL", kind)
        board.audit(repair=True)
        assert board.audit() == [], kind
    board.post("a")
    hand("DEL", "jobs")
    hand("SET", "jobs", "x")
    with pytest.raises(BoardUnavailable, match="`jobboard check` names it"):
        list(board.iterjobs())


def test_no_key_of_a_board_is_taken_for_one_of_another_type(board: JobBoard, hand: Hand) -> None:
    board.post_many([Posting("a", key="k"), Posting("b", lane="l", delay=100), Posting("c"), Posting("d")])
    board.limits.set(lane="l", running=1)
    board.schedules.add(Schedule("s", Every(hours=1), "a"))
    board.save_book(LogBook("b"))
    board.register_entity(Entity("conductor", "w"))
    board.pause("b")
    first, second = board.claim_next("w", ["a", "c"], limit=2)
    board.checkpoint(first, "w", {"n": 1})
    board.consume(first, "w", 1)
    board.trash(second, reason="bad")
    board.signal(board.post("e", after=[board.post("f")]), "go")
    assert wrong_types(board._backend.maintenance._client) == []
    assert len(hand.names("*")) > 20


def test_the_scripts_use_the_keys_as_the_types_say() -> None:
    commands = {"Z": "zset", "H": "hash", "L": "list", "SE": "string", "MG": "string"}
    commands |= dict.fromkeys(["SA", "SR", "SC", "SM"], "set")
    source = "".join(path.read_text() for path in Path(lua.__path__[0]).rglob("*.lua"))
    used = re.findall(r"redis\.call\('([A-Z]+)', key\('([a-z_]+)'", source)
    types = {(kind, commands.get(word[:1]) or commands.get(word[:2])) for word, kind in used}
    listed = {(kind, name) for kind, name in types if name is not None and kind in TYPES}
    assert len(listed) > 40
    assert [(kind, name) for kind, name in sorted(listed) if TYPES[kind] != name] == []


def test_a_layout_of_another_type_is_named(board: JobBoard, hand: Hand) -> None:
    board.close()
    hand("DEL", "layout")
    hand("RPUSH", "layout", "x")
    with pytest.raises(BoardUnavailable, match=r":layout, which must be a string"):
        board.connect()


# -- schedules ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", GARBAGE, ids=repr)
def test_a_schedule_that_the_server_cannot_unpack_stops_no_other(board: JobBoard, hand: Hand, value: bytes) -> None:
    for id in ("spoilt", "sound"):
        board.schedules.add(Schedule(id, Every(hours=1), "report"))
    hand("HSET", "stored_schedules", "spoilt", value)
    hand("ZADD", "due", 1, "spoilt", 2, "sound")
    firing(board).fire_due(10)
    assert hand("ZSCORE", "due", "spoilt") == math.inf
    assert hand("ZSCORE", "due", "sound") not in (2, math.inf)
    assert [schedule.id for schedule in board.schedules] == ["sound"]
    assert [broken.id for broken in board.schedules.unreadable()] == ["spoilt"]
    with pytest.raises(UnreadableSchedule):
        board.schedules.get("spoilt")
    assert value in hand("HGET", "stored_schedules", "spoilt")
    board.schedules.remove("spoilt")
    assert board.schedules.unreadable() == []
    assert board.audit() == []


@pytest.mark.parametrize("value", GARBAGE, ids=repr)
def test_an_audit_sets_aside_a_schedule_that_is_not_due(board: JobBoard, hand: Hand, value: bytes) -> None:
    for id in ("spoilt", "sound"):
        board.schedules.add(Schedule(id, Every(hours=1), "report"))
    hand("HSET", "stored_schedules", "spoilt", value)
    assert [broken.id for broken in board.schedules.unreadable()] == ["spoilt"]
    assert [found.problem for found in board.audit()] == ["the schedule spoilt can not be read"]
    assert is_mended(board)
    assert value in hand("HGET", "stored_schedules", "spoilt")
    assert [broken.id for broken in board.schedules.unreadable()] == ["spoilt"]
    board.schedules.add(Schedule("spoilt", Every(hours=1), "report"), if_exists="replace")
    assert sorted(schedule.id for schedule in board.schedules) == ["sound", "spoilt"]


def test_what_is_due_and_no_schedule_keeps_nothing_from_firing(board: JobBoard, hand: Hand) -> None:
    board.schedules.add(Schedule("sound", Every(hours=1), "report"))
    hand("ZADD", "due", *(part for n in range(300) for part in (1, f"stray {n}")), 2, "sound", 1e300, "far")
    assert [schedule.id for schedule in board.schedules] == ["sound"]
    for _ in range(4):
        firing(board).fire_due(100)
    assert hand("ZSCORE", "due", "sound") != 2
    assert is_mended(board)
    assert hand("ZCARD", "due") == 1


@pytest.mark.parametrize("score", ["1e300", "-inf", "+inf", "5"])
def test_an_audit_puts_a_schedule_back_to_its_own_moment(board: JobBoard, hand: Hand, score: str) -> None:
    board.schedules.add(Schedule("hourly", Every(hours=1), "report"))
    due = hand("ZSCORE", "due", "hourly")
    hand("ZADD", "due", score, "hourly")
    assert [schedule.id for schedule in board.schedules] == ["hourly"]
    assert is_mended(board)
    assert hand("ZSCORE", "due", "hourly") == due
    hand("ZREM", "due", "hourly")
    assert is_mended(board)
    assert hand("ZSCORE", "due", "hourly") == due


def test_a_schedule_whose_id_is_no_text_is_kept_apart(board: JobBoard, hand: Hand) -> None:
    board.schedules.add(Schedule("hourly", Every(hours=1), "report"))
    hand("HSET", "stored_schedules", b"\xff", msgpack.packb(["v", False]))
    hand("ZADD", "due", 1, b"\xff")
    assert [schedule.id for schedule in board.schedules] == ["hourly"]
    assert is_mended(board)
    assert hand("HKEYS", "stored_schedules") == [b"hourly"]
    assert hand("HKEYS", "unreadable") == [b"\xff"]


# -- scores ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", ["1e300", "-1e300", "+inf", "-inf", "0", "7"])
def test_a_score_out_of_range_ends_no_server(board: JobBoard, hand: Hand, score: str) -> None:
    jobs = board.post_many([Posting("resize", priority=priority) for priority in ("high", "low", "normal")])
    for kind in ("ready:resize", "heads"):
        hand("ZADD", kind, score, member_of(jobs[1]) if kind != "heads" else "resize")
    began = time.monotonic()
    stats = board.stats()
    assert (stats.unclaimed, {job.uuid for job in board.iterjobs()}) == (3, {job.uuid for job in jobs})
    assert stats.oldest_unclaimed is not None
    assert {job.uuid for job in board.wait(1)} == {job.uuid for job in jobs}
    assert time.monotonic() - began < 20
    assert is_mended(board)
    assert board.claim_next("alice", limit=3) == [jobs[0], jobs[2], jobs[1]]


@pytest.mark.parametrize("score", ["1e300", "+inf", "-inf"])
def test_other_scores_out_of_range_are_mended(board: JobBoard, hand: Hand, score: str) -> None:
    delayed = board.post("rotate", delay=LONG)
    claimed = board.post("resize")
    board.claim(claimed, "alice", LONG)
    hand("ZADD", "leases", score, claimed.uuid)
    hand("ZADD", "delayed", score, delayed.uuid)
    hand("ZADD", "claimed:resize", score, member_of(claimed))
    hand("ZADD", "names", score, "resize")
    assert list(board.wait(0.1)) == []
    board.stats()
    assert is_mended(board)
    board.consume(claimed, "alice")
    assert delayed.state is JobState.DELAYED


def test_strays_in_a_ready_order_are_passed_over(board: JobBoard, hand: Hand) -> None:
    job = board.post("resize")
    hand("ZADD", "ready:resize", *(part for n in range(3000) for part in ("-inf", f"stray {n}")))
    assert board.claim_next("alice") == [job]
    assert hand("ZCARD", "ready:resize") == 0
    hand("ZADD", "ready:resize", 1, "stray")
    hand("ZADD", "heads", 1, "resize")
    assert (board.claim_next("alice"), hand("ZCARD", "heads")) == ([], 0)


def test_the_head_of_a_name_without_jobs_hides_no_later_job(board: JobBoard, hand: Hand) -> None:
    board.cancel(board.post("resize"))
    hand("ZADD", "heads", "-1e300", "resize")
    board._backend.maintenance.tidy(100)
    job = board.post("resize")
    assert list(board.iterjobs()) == [job]


def test_strays_among_the_timers_keep_no_job_from_its_moment(board: JobBoard, hand: Hand) -> None:
    delayed = board.post("resize", delay=0.05)
    for timer in ("leases", "delayed"):
        hand("ZADD", timer, *(part for n in range(3000) for part in (1, f"stray {n}")))
    eventually(lambda: board.claim_next("alice") == [delayed])
    assert (hand("ZCARD", "leases"), hand("ZCARD", "delayed")) == (1, 0)


# -- records -----------------------------------------------------------------------------------------------------------

#: Where a record has what, and what can't stand there.
FIELDS = {2: "x", 3: None, 4: 1.5e308 * 10, 5: "x", 7: "NOWHERE", 8: [], 9: "x", 10: {}, 13: "x", 14: 7, 16: "x", 18: 5}


def spoil(hand: Hand, uuid: str, at: int, value: object) -> None:
    stored = hand("HGET", "jobs", uuid)
    unpacker = msgpack.Unpacker()
    unpacker.feed(stored)
    record = unpacker.unpack()
    rest = stored[unpacker.tell() :]
    record[at] = value
    hand(
        "HSET",
        "jobs",
        uuid,
        b"\xdc\x00\x17" + b"".join(msgpack.packb(field, use_bin_type=False) for field in record) + rest,
    )


def look_everywhere(board: JobBoard) -> None:
    board.stats()
    list(board.iterjobs(states=list(JobState)))
    list(board.wait(0.1))
    board._backend.maintenance.tidy(100)
    list(board.trashed())


@pytest.mark.parametrize("at", FIELDS)
def test_a_field_that_is_none_harms_one_job_only(board: JobBoard, hand: Hand, at: int) -> None:
    bad, good = board.post("resize", priority="high"), board.post("resize")
    spoil(hand, bad.uuid, at, FIELDS[at])
    look_everywhere(board)
    assert board.claim_next("alice") == [good]
    assert is_mended(board)
    [trashed] = board.trashed()
    assert (trashed.uuid, trashed.record.reason) == (bad.uuid, "its record could not be read")
    assert hand("HEXISTS", "unreadable", bad.uuid)
    board.purge(bad.uuid)


@pytest.mark.parametrize("claim_id", [None, False, 7, [], b"\xff"], ids=repr)
def test_a_claim_id_that_is_none_keeps_no_lost_claim_from_being_found(
    board: JobBoard, hand: Hand, claim_id: object
) -> None:
    bad, lost = board.post("resize"), board.post("resize")
    for job in (bad, lost):
        board.claim(job, "alice", LONG)
    [row] = board._backend.jobs.read([lost.uuid])
    assert row is not None
    hand("DEL", f"owner:{row.claim_id}")
    spoil(hand, bad.uuid, 15, claim_id)
    hand("DEL", "swept")
    board._backend.maintenance.tidy(100)
    assert lost.state is JobState.UNCLAIMED
    board.audit(repair=True)
    assert board.audit() == []


def test_a_claim_that_is_over_is_not_consumed_though_its_lease_was_deleted(board: JobBoard, hand: Hand) -> None:
    board.post_many([Posting("resize") for _ in range(2)])
    over, held = board.claim_next("alice", limit=2, expiry=LONG)
    board.extend(over, "alice", 0.05)
    hand("ZREM", "leases", over.uuid)
    end = board._backend.now() + 0.05
    eventually(lambda: board._backend.now() > end)
    assert [type(error) for error in board.consume_many([over, held], "alice")] == [ClaimLost, type(None)]
    assert over.state is JobState.UNCLAIMED


def test_texts_that_are_none_are_shown(board: JobBoard, hand: Hand) -> None:
    bad, good = board.post("resize", priority="high", key="k"), board.post("resize")
    spoil(hand, bad.uuid, 18, b"\xff reason")
    look_everywhere(board)
    assert board.claim_next("alice", limit=2) == [bad, good]
    assert board.get(bad.uuid).record.reason == "\\xff reason"


@pytest.mark.parametrize("value", GARBAGE, ids=repr)
def test_a_value_that_cannot_be_unpacked_harms_nobody(board: JobBoard, hand: Hand, value: bytes) -> None:
    done, bad, good = (board.post("resize", priority=priority) for priority in ("very_high", "high", "normal"))
    board.claim_next("alice")
    board.consume(done, "alice")
    hand("SET", f"done:{done.uuid}", value)
    hand("HSET", "jobs", bad.uuid, value)
    hand("HSET", "waiters", "somebody/1", value)
    hand("ZADD", "armed", 1, "somebody/1")
    hand("HSET", "swept", "at", value, "place", value)
    hand("HSET", "entities", value, value)
    hand("HSET", "seen", value, value)
    hand("SADD", "paused", b"\xff")
    hand("HSET", "pauses", b"\xff", value)
    hand("ZADD", "names", 0, b"\xff")
    hand("ZADD", f"trash:{'resize'}", 1, "stray")
    look_everywhere(board)
    assert board.entities() == []
    assert board.pauses() == [Pause("\\xff")]
    assert board.claim_next("alice", limit=9) == [good]
    assert is_mended(board)
    assert hand("HGET", "unreadable", bad.uuid) == value


@pytest.mark.parametrize("lines", [b"\xc1", b"\xdc\xff", msgpack.packb("POSTED")], ids=repr)
def test_a_history_that_cannot_be_read_stops_no_end(board: JobBoard, hand: Hand, lines: bytes) -> None:
    job = board.post("resize")
    stored = hand("HGET", "jobs", job.uuid)
    unpacker = msgpack.Unpacker()
    unpacker.feed(stored)
    unpacker.unpack()
    hand("HSET", "jobs", job.uuid, stored[: unpacker.tell()] + lines)
    assert list(job.history) == []
    assert is_mended(board)
    assert hand("HGET", "unreadable", job.uuid) == lines
    hand("HSET", "jobs", job.uuid, stored[: unpacker.tell()] + lines)
    for _ in range(25):
        board.claim(job, "alice", LONG)
        board.abandon(job, "alice")
    board.claim(job, "alice", LONG)
    board.consume(job, "alice", "done")
    assert job.result == "done"


def test_a_sequence_that_is_no_number_is_mended(board: JobBoard, hand: Hand) -> None:
    first = board.post("resize")
    hand("HSET", "counters", "sequence", "many")
    with pytest.raises(BoardUnavailable):
        board.post("resize")
    assert is_mended(board)
    second = board.post("resize")
    assert board.claim_next("alice", limit=2) == [first, second]


def test_a_key_that_leads_nowhere_is_mended(board: JobBoard, hand: Hand) -> None:
    hand("HSET", "keys", "resize\nk", str(uuids.uuid4()))
    assert is_mended(board)
    assert board.post("resize", key="k").key == "k"


def test_a_record_under_a_name_that_is_no_uuid_is_kept_apart(board: JobBoard, hand: Hand) -> None:
    hand("HSET", "jobs", b"\xff", b"\xc1")
    look_everywhere(board)
    assert is_mended(board)
    assert (hand("HGET", "unreadable", b"\xff"), board.job_count) == (b"\xc1", 0)


# -- logbooks ----------------------------------------------------------------------------------------------------------


def test_entries_of_books_are_found_and_mended(board: JobBoard, hand: Hand) -> None:
    book, other = LogBook("journal"), str(uuids.uuid4())
    book.named = {"a": 1, "b": 2}
    board.save_book(book)
    hand("ZREM", "entry_names", f"{book.uuid}ea")
    hand("HSET", "book_entries", f"{other}ea", b"\x01")
    hand("ZADD", "entry_names", 0, f"{other}eb")
    assert len(board.audit()) == 3
    assert is_mended(board)
    assert board.load_book(book.uuid).named == {"a": 1, "b": 2}
    assert hand("ZCARD", "entry_names") == hand("HLEN", "book_entries") == 2
    hand("HDEL", "book_entries", f"{book.uuid}ea")
    with pytest.raises(BoardUnavailable, match="1 of its 2 entries"):
        board.load_book(book.uuid)
    board.destroy_book(book.uuid)
    assert (board.audit(), hand("ZCARD", "entry_names")) == ([], 0)
