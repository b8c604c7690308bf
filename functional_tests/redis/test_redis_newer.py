"""Jobs of a newer format on Redis: an older client leaves them as they are, and they stand in nobody's way."""

from __future__ import annotations

import logging
import time

import msgpack
import pytest
from harnesses.fixtures import a_board, a_harness, a_server
from harnesses.redis_hand import Hand, a_hand, member_of
from harnesses.redis_harness import RedisHarness
from servers.redis_servers import RedisServer

from jobboard import BoardUnavailable, JobBoard, JobState, Posting
from jobboard.testing import eventually

LONG = 600.0

server = a_server(RedisServer)
harness = a_harness(RedisHarness)
board = a_board()
hand = a_hand()


def renew(hand: Hand, *uuids: str) -> dict[str, bytes]:
    """Write records as a later version might: with more fields behind those of today."""
    for uuid in uuids:
        stored = hand("HGET", "jobs", uuid)
        unpacker = msgpack.Unpacker()
        unpacker.feed(stored)
        unpacker.unpack()
        end = unpacker.tell()
        further = msgpack.packb(["after"]) + b"\x07\xc2\xc2"
        hand("HSET", "jobs", uuid, b"\xdc\x00\x1b" + stored[3:end] + further + stored[end:])
    return records_of(hand)


def records_of(hand: Hand) -> dict[str, bytes]:
    uuids = hand("HKEYS", "jobs")
    return {uuid.decode(): hand("HGET", "jobs", uuid) for uuid in uuids}


def test_a_job_of_a_newer_format_is_left_to_newer_readers(
    board: JobBoard, hand: Hand, caplog: pytest.LogCaptureFixture
) -> None:
    new = board.post("resize", priority="high", key="new")
    late, held = board.post("resize", delay=0.05), board.post("resize", priority="very_high")
    [claimed] = board.claim_next("alice", expiry=0.05)
    old = board.post("resize")
    records = renew(hand, new.uuid, late.uuid, held.uuid)
    orders = {name: hand("ZRANGE", name, 0, -1) for name in ("ready:resize", "delayed", "leases", "claimed:resize")}
    eventually(lambda: board.stats() is not None and late.record.run_at is not None)
    time.sleep(0.1)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert [job.uuid for job in board.claim_next("bob", limit=3, expiry=LONG)] in ([old.uuid], [])
            assert list(board.wait(0.1)) == []
            board._backend.maintenance.tidy(100)
            assert board.audit(repair=True) == []
    [warning] = [record for record in caplog.records if "newer jobboard" in record.message]
    assert "left alone" in warning.message
    for request in (
        lambda: board.claim(new, "bob"),
        lambda: board.cancel(new),
        lambda: board.trash(new, by="bob"),
        lambda: board.release(claimed, reason="gone"),
    ):
        with pytest.raises(BoardUnavailable, match="newer jobboard, and nothing was done"):
            request()
    assert board.find("resize", "new").state is JobState.UNCLAIMED
    assert {uuid: value for uuid, value in records_of(hand).items() if uuid != old.uuid} == {
        uuid: value for uuid, value in records.items() if uuid != old.uuid
    }
    for name, members in orders.items():
        assert set(members) - {old.uuid.encode(), member_of(old).encode()} <= set(hand("ZRANGE", name, 0, -1))


def test_jobs_of_a_newer_format_stand_in_nobodys_way(board: JobBoard, hand: Hand) -> None:
    newer = board.post_many([Posting("resize", priority="high") for _ in range(300)])
    older = board.post_many([Posting("resize") for _ in range(5)])
    renew(hand, *(job.uuid for job in newer))
    assert {job.uuid for job in board.wait(1)} >= {job.uuid for job in older}
    assert board.claim_next("alice", limit=2) == older[:2]
    assert board.claim_next("alice", limit=9) == older[2:]
    assert board.claim_next("alice") == []
    assert (board.job_count, hand("ZCARD", "ready:resize")) == (305, 300)


def test_an_audit_repairs_no_job_of_a_newer_format(board: JobBoard, hand: Hand) -> None:
    job = board.post("resize", delay=LONG)
    records = renew(hand, job.uuid)
    hand("ZADD", "delayed", "+inf", job.uuid)
    assert board.audit(repair=True) == []
    assert records_of(hand) == records
