"""A kazoo whose privates are all unknown makes a ZooKeeper board slower, and breaks nothing."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from harnesses.deployments import OtherWayContract
from harnesses.fixtures import a_harness_behind, a_proxy, a_server
from harnesses.zookeeper_harness import ZooKeeperHarness, plain_client
from servers.proxy import Proxy
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import BoardUnavailable, EventKind, JobEvent, JobState, Posting, fetch
from jobboard.backends.zookeeper import kazoo_internals
from jobboard.board import client_of
from jobboard.testing import Harness, eventually
from jobboard.testing.deadline import ends_within

LONG = 600.0

server = a_server(ZooKeeperServer)
proxy = a_proxy()


class ShortSessions(ZooKeeperHarness):
    backend_options = {"session_timeout": 1.2, "request_timeout": 0.5}


behind = a_harness_behind(ShortSessions)


@pytest.fixture(autouse=True)
def unknown_kazoo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kazoo_internals, "is_known", lambda *_: False)


class TestPublicKazoo(OtherWayContract):
    executed_cases = OtherWayContract.all_cases

    @pytest.fixture
    def harness(self, server: ZooKeeperServer) -> Iterator[Harness]:
        with ZooKeeperHarness(server.uri) as harness:
            yield harness


def test_nothing_private_is_used(server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the other tests here would show nothing."""
    with ZooKeeperHarness(server.uri) as harness:
        board = harness.board()
        backend: Any = board._backend
        internals = backend._connection.internals
        sent: list[Any] = []
        call = internals._client._call

        def recorded(request: Any, pending: Any) -> Any:
            sent.append(request)
            return call(request, pending)

        monkeypatch.setattr(internals._client, "_call", recorded)
        board.post_many([Posting("resize", key=str(n)) for n in range(3)])
        for job in board.claim_next("alice", limit=3, expiry=LONG):
            board.consume(job, "alice")
        assert sent
        assert {type(request).__module__ for request in sent} == {"kazoo.protocol.serialization"}


def test_claims_stay_when_a_board_closes_and_end_with_the_session(server: ZooKeeperServer) -> None:
    with ShortSessions(server.uri) as harness:
        board, other = harness.board(), None
        other = harness.board(board.name)
        job = board.post("resize")
        board.claim(job, "alice", LONG)
        board.close()
        assert other.claim_next("bob") == []
        assert next(iter(other.wait(20))) == job
        names = "jobboard-zookeeper-session"
        eventually(lambda: names not in {thread.name for thread in threading.enumerate()})


def test_a_break_and_a_lost_session_are_survived(behind: ShortSessions, proxy: Proxy, server: ZooKeeperServer) -> None:
    board = behind.board(patience=0.2)
    received: list[JobEvent] = []
    board.subscribe(received.append, [EventKind.EXPIRED])
    job = board.post("resize")
    board.claim(job, "alice", LONG)
    proxy.shut()
    eventually(lambda: [event.uuid for event in received] == [job.uuid])
    with contextlib.suppress(BoardUnavailable):
        board.stats()
    proxy.open_again()
    eventually(lambda: board.connected)
    [again] = [found for found in board.wait(20) if found == job]
    assert board.claim_next("bob", expiry=LONG) == [again]
    board.consume(again, "bob")
    assert (again.state, board.audit()) == (JobState.COMPLETE, [])


def test_a_lent_client_goes_on(server: ZooKeeperServer) -> None:
    with plain_client(server.uri) as lent:
        for _ in range(3):
            with fetch("lent", "zookeeper", client=lent) as board:
                board.subscribe(lambda event: None)
                job = board.post("resize")
                assert next(iter(board.wait(5))) == job
                board.consume(board.claim_next("alice")[0], "alice")
        assert lent.connected


def test_a_frozen_server_is_left_in_time() -> None:
    with ZooKeeperServer() as server, ShortSessions(server.uri) as harness:
        # Until the server is frozen, a busy one may take longer than it is given.
        board = harness.board(patience=60.0)
        board.subscribe(lambda event: None)
        server.freeze()
        client_of(board).patience = 0.0
        with pytest.raises(BoardUnavailable):
            board.stats()
        ends_within(30.0, board.close)
        server.thaw()
