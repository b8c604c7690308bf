"""A post claims its job for a waiter that has asked for it: what the waiter learns, and when nothing is claimed."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
from harnesses.armed_waiters import requests_of
from harnesses.fixtures import a_harness, a_harness_behind, a_proxy, a_server
from harnesses.redis_harness import RedisHarness
from servers.proxy import Proxy
from servers.redis_servers import RedisServer

from jobboard import JobBoard, JobState, fetch
from jobboard.backends.redis import RedisBackend, waiting, wake_ups
from jobboard.backends.rows import ClaimRequest, JobRow
from jobboard.board import client_of

LONG = 600.0

server = a_server(RedisServer)
harness = a_harness(RedisHarness)
proxy = a_proxy()
behind = a_harness_behind(RedisHarness)


@pytest.fixture
def backend(harness: RedisHarness) -> Iterator[RedisBackend]:
    backend = harness.backend(harness.fresh_name())
    assert isinstance(backend, RedisBackend)
    backend.open(5.0)
    yield backend
    backend.close()


def armed_waiter(backend: RedisBackend) -> waiting.RedisWaiter:
    waiter = backend.waiter(frozenset(["step"]))
    assert isinstance(waiter, waiting.RedisWaiter)
    waiter.claim_ahead("idle", LONG)
    assert waiter.ready_in() is None
    return waiter


def claim_unheard(backend: RedisBackend, board: JobBoard, waiter: waiting.RedisWaiter) -> JobRow:
    """Leave the server as a post does that claims for a waiter, and whose message gets lost."""
    claim_id = backend.client.read("disarm", waiter.id)[1].decode()
    board.post("step")
    [row] = backend.jobs.claim_next(ClaimRequest("idle", claim_id, LONG), frozenset(["step"]), 1)
    return row


def test_what_was_claimed_is_found_when_only_the_wake_up_is_lost(
    harness: RedisHarness, backend: RedisBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MAX_SLEEP", 0.05)
    board = harness.board(backend.board)
    waiter = armed_waiter(backend)
    lost = claim_unheard(backend, board, waiter)
    before = time.monotonic()
    waiter.wait(60)
    rows, since = waiter.claimed()
    assert [(row.uuid, row.token) for row in rows] == [(lost.uuid, lost.token)]
    assert since <= before
    assert waiter.claimed() == ([], float("inf"))
    waiter.close()


def test_whoever_waits_no_more_gets_what_was_claimed_meanwhile(harness: RedisHarness, backend: RedisBackend) -> None:
    board = harness.board(backend.board)
    waiter = armed_waiter(backend)
    # The request of before is withdrawn.
    assert waiter.ready_in() is None
    lost = claim_unheard(backend, board, waiter)
    assert [row.uuid for row in waiter.claimed()[0]] == [lost.uuid]
    # Now nothing more is claimed for it.
    job = board.post("step")
    assert (job.state, waiter.claimed()[0]) == (JobState.UNCLAIMED, [])
    waiter.close()


def test_a_wake_up_that_comes_after_its_job_was_found_does_not_bring_it_again(
    harness: RedisHarness, backend: RedisBackend
) -> None:
    board = harness.board(backend.board)
    waiter = armed_waiter(backend)
    lost = claim_unheard(backend, board, waiter)
    assert len(waiter.claimed()[0]) == 1
    waiter.learn(lost.claim_id or "", [lost])
    assert waiter.claimed()[0] == []
    waiter.close()


def test_a_wake_up_of_a_waiter_that_was_just_closed_is_no_fault(
    server: RedisServer, harness: RedisHarness, backend: RedisBackend, caplog: pytest.LogCaptureFixture
) -> None:
    gone, waiter = (backend.waiter(frozenset(["step"])) for _ in range(2))
    assert isinstance(gone, waiting.RedisWaiter)
    assert isinstance(waiter, waiting.RedisWaiter)
    assert (gone.ready_in(), waiter.ready_in()) == (None, None)
    gone.close()
    channel = f"{backend.key}:wake:{waiter.id.partition('/')[0]}"
    with server.client() as client:
        assert client.execute_command("SPUBLISH", channel, gone.id) == 1
    harness.board(backend.board).post("step")
    waiter.wait(60)
    waiter.close()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_job_that_was_ready_before_is_claimed_first(
    server: RedisServer, backend: RedisBackend, harness: RedisHarness
) -> None:
    """Such as one whose conductor died, and which another one was woken for."""
    board = harness.board(backend.board)
    waiter = armed_waiter(backend)
    with server.client() as client:
        armed_with = client.hget(f"{backend.key}:waiters", waiter.id)
        backend.client.read("disarm", waiter.id)
        earlier = board.post("step")
        client.hset(f"{backend.key}:waiters", waiter.id, armed_with)
        client.zadd(f"{backend.key}:waiting:step", {waiter.id: "+inf"})
    later = board.post("step", priority="HIGH")
    waiter.wait(60)
    assert (waiter.claimed()[0], earlier.state, later.state) == ([], JobState.UNCLAIMED, JobState.UNCLAIMED)
    waiter.close()


def test_what_nobody_waits_for_keeps_no_job_from_being_claimed_ahead(
    backend: RedisBackend, harness: RedisHarness
) -> None:
    board = harness.board(backend.board)
    board.post("other")
    waiter = armed_waiter(backend)
    job = board.post("step")
    assert job.state is JobState.CLAIMED
    waiter.wait(60)
    assert [row.uuid for row in waiter.claimed()[0]] == [job.uuid]
    waiter.close()


def test_a_repeated_post_uses_up_no_claim_request(backend: RedisBackend, harness: RedisHarness) -> None:
    board = harness.board(backend.board)
    known = board.post("step")
    board.claim(known, "alice", math.inf)
    waiter = armed_waiter(backend)
    board.post("step", uuid=known.uuid)
    job = board.post("step")
    assert (job.state, job.owner) == (JobState.CLAIMED, "idle")
    waiter.close()


def test_a_connection_that_died_in_silence_is_opened_again(
    behind: RedisHarness, proxy: Proxy, harness: RedisHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = behind.backend(behind.fresh_name())
    assert isinstance(backend, RedisBackend)
    backend.open(5.0)
    waiter, board = armed_waiter(backend), harness.board(backend.board)
    assert proxy.mute(_subscribes) == 1
    monkeypatch.setattr(wake_ups, "_CHECK_AFTER", -1.0)
    monkeypatch.setattr(wake_ups, "_CHECK_TIMEOUT", 0.0)
    assert (waiter.claimed()[0], waiter.ready_in()) == ([], None)
    # The server has sent a message, which does not come.
    waiter.wait(60)
    assert (waiter.claimed()[0], waiter.ready_in()) == ([], None)
    job = board.post("step")
    waiter.wait(60)
    assert [row.uuid for row in waiter.claimed()[0]] == [job.uuid]
    assert proxy.mute(_subscribes) == 2
    waiter.close()
    backend.close()


def _subscribes(sent: bytes) -> bool:
    return b"SSUBSCRIBE" in sent


@pytest.mark.parametrize(
    "request_",
    [["idle"], ["idle", "an id", "soon", 1, ["step"]], [1, 2, 6e8, "x", {}], ["idle", "an id", 6e300], "no list"],
)
def test_a_claim_request_that_can_t_be_read_fails_no_post(
    server: RedisServer, harness: RedisHarness, backend: RedisBackend, request_: Any
) -> None:
    board, waiter = harness.board(backend.board), armed_waiter(backend)
    with server.client() as client:
        client.hset(f"{backend.key}:waiters", waiter.id, msgpack.packb(["step"]) + msgpack.packb(request_))
    job = board.post("step")
    assert (job.state, board.audit()) == (JobState.UNCLAIMED, [])
    assert [found.uuid for found in board.claim_next("alice")] == [job.uuid]
    waiter.close()


def test_nobody_relies_on_a_claim_that_may_have_no_copy(server: RedisServer, harness: RedisHarness) -> None:
    """A client that claims by itself waits for the copies."""
    board = fetch(harness.fresh_name(), server.uri, durability="wait:1:2000")
    with board, client_of(board).waiter() as waiter:
        waiter.claim_ahead("idle", LONG)
        assert waiter.ready_in() is None
        assert requests_of(server, board) == [None]


def test_a_waiter_asks_for_no_claim_unless_it_is_told_to(server: RedisServer, harness: RedisHarness) -> None:
    board = harness.board()
    with client_of(board).waiter() as waiter:
        assert waiter.ready_in() is None
        assert requests_of(server, board) == [None]
        job = harness.board(board.name).post("step")
        waiter.wait(60)
        assert job.state is JobState.UNCLAIMED
