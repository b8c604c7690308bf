"""Boards that connect as a redis-py client of the program does, which is left as it is."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.sentinel import Sentinel
from servers.base import HOST, free_port
from servers.certificates import make_certificates
from servers.redis_servers import RedisCluster, RedisSentinel, RedisServer

from jobboard import BoardUnavailable, JobBoard, fetch
from jobboard.testing import eventually

LONG = 600.0
Make = Callable[[ExitStack, Path], Any]


def _standalone(stack: ExitStack, folder: Path) -> Any:
    server = stack.enter_context(RedisServer())
    return redis.Redis(HOST, server.port, db=3, decode_responses=True, protocol=3, max_connections=1)


def _of_a_uri(stack: ExitStack, folder: Path) -> Any:
    server = stack.enter_context(RedisServer({"unixsocket": str(folder / "socket")}))
    assert server.port
    return redis.Redis.from_url(f"unix://{folder}/socket?db=2&decode_responses=true")


def _with_tls(stack: ExitStack, folder: Path) -> Any:
    make_certificates(folder)
    port = free_port()
    settings = {
        "tls-port": str(port), "tls-cert-file": f"{folder}/server.pem", "tls-key-file": f"{folder}/server.key",
        "tls-ca-cert-file": f"{folder}/ca.pem", "requirepass": "s3cret",
    }  # fmt: skip
    stack.enter_context(RedisServer(settings))
    return redis.Redis(
        HOST, port, password="s3cret", ssl=True, ssl_ca_certs=f"{folder}/ca.pem",
        ssl_certfile=f"{folder}/client.pem", ssl_keyfile=f"{folder}/client.key",
    )  # fmt: skip


def _behind_sentinels(stack: ExitStack, folder: Path) -> Any:
    servers = stack.enter_context(RedisSentinel())
    return Sentinel([(HOST, free_port()), (HOST, servers.port)], decode_responses=True).master_for(servers.service)


def _of_a_cluster(stack: ExitStack, folder: Path) -> Any:
    cluster = stack.enter_context(RedisCluster())
    return redis.RedisCluster(HOST, cluster.nodes[1].port, decode_responses=True)


def _worked(board: JobBoard) -> None:
    """Post, wait, listen, claim and consume."""
    received: list[str] = []
    end = board.subscribe(lambda event: received.append(str(event.kind)), ["CONSUMED"])
    job = board.post("resize", details={"n": 1})
    assert next(iter(board.wait(10))) == job
    [claimed] = board.claim_next("alice", expiry=LONG)
    board.consume(claimed, "alice", {"done": True})
    assert board.get(job.uuid).record.result == {"done": True}
    eventually(lambda: received == ["CONSUMED"])
    end()


@pytest.mark.parametrize(
    "make",
    [_standalone, _of_a_uri, _with_tls, _behind_sentinels, _of_a_cluster],
    ids=["standalone", "unix", "tls", "sentinel", "cluster"],
)
def test_a_board_connects_as_a_client_does_and_leaves_it_as_it_is(make: Make, tmp_path: Path) -> None:
    with ExitStack() as stack:
        client = make(stack, tmp_path)
        stack.callback(client.close)
        client.set("of the program", "1")
        before = _state_of(client)
        with fetch("jobs", "redis", client=client) as board:
            _worked(board)
            _share_with_a_child(board)
            assert _state_of(client) == before
        assert _state_of(client) == before
        # The same server, and the same database.
        assert client.exists("{jobboard:jobs}:counters")
        assert client.get("of the program") in ("1", b"1")


def _state_of(client: Any) -> Any:
    if isinstance(client, redis.RedisCluster):
        return sorted(node.name for node in client.get_nodes()), dict(client.get_connection_kwargs())
    pool = client.connection_pool
    return list(pool._available_connections), list(pool._in_use_connections), dict(pool.connection_kwargs)


def test_others_may_have_all_connections_of_its_pool() -> None:
    with RedisServer() as server, redis.Redis(HOST, server.port, max_connections=1) as client:
        with client.pubsub() as held:
            held.subscribe("news")
            with pytest.raises(redis.ConnectionError):
                client.ping()
            with fetch("jobs", "redis", client=client) as board:
                _worked(board)
        assert client.ping()


def test_a_board_ends_with_its_connections() -> None:
    with RedisServer() as server, redis.Redis(HOST, server.port, client_name="shop") as client:
        before = len(client.client_list())
        with fetch("jobs", "redis", client=client) as board:
            _worked(board)
            assert {one["name"] for one in client.client_list()} == {"shop"}
        eventually(lambda: len(client.client_list()) == before)


def test_time_limits_hold_for_a_client_without_any() -> None:
    with RedisServer() as server:
        client = redis.Redis(HOST, server.port, socket_timeout=None)
        with fetch("jobs", "redis", client=client, socket_timeout=2.0, patience=2.0) as board:
            board.post("resize")
            os.kill(server.process.pid, signal.SIGSTOP)
            try:
                with pytest.raises(BoardUnavailable):
                    board.stats()
            finally:
                os.kill(server.process.pid, signal.SIGCONT)
            eventually(lambda: board.stats().unclaimed == 1)


def _share_with_a_child(board: JobBoard) -> None:
    child = multiprocessing.get_context("fork").Process(target=_post_in_child, args=(board,))
    child.start()
    for _ in range(20):
        board.post("of the parent")
    child.join(30)
    assert child.exitcode == 0
    assert len(board.claim_next("alice", limit=50)) == 40


def _post_in_child(board: JobBoard) -> None:
    board.connect()
    for _ in range(20):
        board.post("of the child")


def test_what_is_no_client_for_a_board_is_refused() -> None:
    sentinel = Sentinel([(HOST, 1)])
    for given, text in (
        ("redis://localhost", "must be a redis.Redis or a redis.RedisCluster, not builtins.str"),
        (redis.asyncio.Redis(), "give a redis.Redis with the same settings"),
        (sentinel.slave_for("jobs"), "master_for"),
    ):
        with pytest.raises(ValueError, match=f"option client: .*{text}"):
            fetch("jobs", "redis", client=given)
    for uri, options in (("redis://other", {}), ("redis", {"db": 1}), ("redis", {"ssl_ca_certs": "x"})):
        with pytest.raises(ValueError, match="with client=, the server, the user and the options"):
            fetch("jobs", uri, client=redis.Redis(), **options)
