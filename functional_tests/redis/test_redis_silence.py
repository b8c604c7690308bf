"""A Redis server, a Sentinel or a node that keeps silent: every call ends within its stated time."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from harnesses.silence import busy_conductor
from servers.base import HOST, RunningServer
from servers.redis_servers import RedisCluster, RedisSentinel, RedisServer

from jobboard import BoardUnavailable, JobBoard, JobState, Posting, fetch
from jobboard.board import client_of
from jobboard.testing import eventually

#: What each server may take, and for how long the board repeats.
TIMEOUT, PATIENCE = 0.3, 0.3
#: A busy machine may take a while to notice.
SLACK = 4.0
FOR_ALL = TIMEOUT + PATIENCE + SLACK


@pytest.fixture
def mute() -> Iterator[str]:
    """A listener that accepts, reads nothing and never answers."""
    with socket.create_server((HOST, 0)) as listener:
        yield f"{HOST}:{listener.getsockname()[1]}"


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


@pytest.mark.parametrize(
    "uri", ["redis://{}", "redis+sentinel://{}/jobs", "redis+sentinel://{0},{0},{0}/jobs", "redis+cluster://{0},{0}"]
)
def test_a_connect_to_what_never_answers_ends_in_time(mute: str, uri: str) -> None:
    board = fetch("mute", uri.format(mute))
    with within(TIMEOUT + SLACK), pytest.raises(BoardUnavailable):
        board.connect(TIMEOUT)
    impatient = fetch("mute", {"board": uri.format(mute), "socket_timeout": TIMEOUT})
    with within(TIMEOUT + SLACK), pytest.raises(BoardUnavailable):
        impatient.connect(60)


def test_a_silent_sentinel_or_node_leaves_time_for_the_others(mute: str) -> None:
    with RedisSentinel() as servers:
        uri = servers.uri.replace("redis+sentinel://", f"redis+sentinel://{mute},")
        board = fetch("received", uri)
        with within(3 + SLACK):
            board.connect(3)
        # The one that answered is asked first from then on.
        with within(1), servers.primary.client() as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            assert board.job_count == 0
        board.close()


#: 20 MB, more than a socket takes at once.
LARGE = [Posting("large", details={"text": f"{number:06}" * 80_000}) for number in range(40)]

CALLS: dict[str, Callable[[JobBoard], object]] = {
    "post": lambda board: board.post("resize"),
    "post_many": lambda board: board.post_many([Posting("resize") for _ in range(20)]),
    "post_many, large": lambda board: board.post_many(LARGE),
    "claim_next": lambda board: board.claim_next("alice", limit=3),
    "stats": lambda board: board.stats(),
    "iterjobs": lambda board: list(board.iterjobs(states=set(JobState))),
    "cancel_by_key": lambda board: board.cancel_by_key("resize", "k"),
    "pause": lambda board: board.pause(),
    "audit": lambda board: board.audit(repair=True),
    "entities": lambda board: board.entities(),
    "subscribe": lambda board: board.subscribe(lambda _: None),
    "schedules": lambda board: list(board.schedules),
}


@pytest.fixture(scope="module")
def single() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@contextmanager
def frozen(server: RunningServer) -> Iterator[None]:
    server.freeze()
    try:
        yield
    finally:
        server.thaw()


def an_impatient_board(uri: str) -> JobBoard:
    return fetch("frozen", {"board": uri, "socket_timeout": TIMEOUT}, patience=PATIENCE)


def answers(board: JobBoard) -> bool:
    """Whether the server has answered in time; a busy one may not."""
    try:
        board.stats()
    except BoardUnavailable:
        return False
    return True


@pytest.mark.parametrize("call", CALLS)
def test_every_call_ends_while_the_server_is_frozen(single: RedisServer, call: str) -> None:
    with an_impatient_board(single.uri) as board:
        eventually(lambda: answers(board))
        with frozen(single), within(FOR_ALL), pytest.raises(BoardUnavailable):
            CALLS[call](board)
        eventually(lambda: answers(board))


def test_a_request_that_is_larger_than_a_socket_takes_at_once_arrives(single: RedisServer) -> None:
    with fetch("large", single.uri) as board:
        board.post_many(LARGE)
        assert [job.details for job in board.iterjobs()] == [posting.details for posting in LARGE]


@pytest.mark.parametrize("seconds", [0.0, 0.5])
def test_a_wait_ends_while_the_server_is_frozen(single: RedisServer, seconds: float) -> None:
    """With the usual patience: it is the wait's own time that counts."""
    with fetch(f"waiting {seconds}", single.uri) as board:
        board.post("resize")
        assert len(list(board.wait(1))) == 1
        with frozen(single), within(seconds + 3 + SLACK), pytest.raises(BoardUnavailable):
            list(board.wait(seconds))
        began = time.monotonic()
    assert time.monotonic() - began < FOR_ALL


def test_a_wait_that_was_armed_ends_while_the_server_is_frozen(single: RedisServer) -> None:
    with fetch("armed", single.uri) as board, single.client() as client:
        with within(0.6 + 3 + SLACK):
            waiter = client_of(board).waiter()
            assert waiter.ready_in() is None
            assert client.hlen("{jobboard:armed}:waiters") == 1
            with frozen(single):
                waiter.wait(0.6)
        waiter.close()


def test_a_conductor_stops_in_time_while_the_server_is_frozen(single: RedisServer) -> None:
    with (
        fetch("stopping", single.uri) as board,
        busy_conductor(board, "resize") as conductor,
        frozen(single),
        within(2 + SLACK),
    ):
        assert not conductor.stop(drain=False, timeout=2)


def test_every_call_ends_while_a_primary_or_its_sentinel_is_frozen() -> None:
    with RedisSentinel() as servers, an_impatient_board(servers.uri) as board:
        eventually(lambda: answers(board))
        for server in (servers.primary, servers):
            with frozen(server), servers.primary.client() as client:
                if server is servers:
                    client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                with within(FOR_ALL), pytest.raises(BoardUnavailable):
                    board.post("resize")
            eventually(lambda: answers(board))


def test_every_call_ends_while_all_nodes_of_a_cluster_are_frozen() -> None:
    with RedisCluster() as cluster, an_impatient_board(cluster.uri) as board:
        eventually(lambda: answers(board))
        for node in cluster.nodes:
            node.freeze()
        try:
            with within(FOR_ALL), pytest.raises(BoardUnavailable):
                board.post("resize")
        finally:
            for node in cluster.nodes:
                node.thaw()


def test_a_durability_may_take_its_own_time() -> None:
    with RedisServer() as server, RedisServer({"replicaof": f"{HOST} {server.port}"}) as replica:
        with server.client() as client:
            # A replica that is connected is not yet one that follows.
            eventually(lambda: client.info("replication").get("slave0", {}).get("state") == "online")
        options = {"board": server.uri, "socket_timeout": TIMEOUT, "durability": "wait:1:600"}
        with fetch("durable", options, patience=PATIENCE) as board:
            board.post("resize")
            with (
                frozen(replica),
                within(TIMEOUT + 0.6 + PATIENCE + SLACK),
                pytest.raises(BoardUnavailable, match="unknown"),
            ):
                board.post("resize")
