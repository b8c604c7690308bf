"""Several servers: a failover behind a Sentinel, and a slot that moves in a Cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
from harnesses.busy_board import BOARD, goes_on
from harnesses.redis_harness import ClusterHarness, SentinelHarness
from servers.base import HOST, free_port
from servers.redis_servers import RedisCluster, RedisSentinel, RedisServer

from jobboard import BoardUnavailable, JobState, Posting, fetch
from jobboard.testing import eventually

LONG = 600.0


def test_a_board_goes_on_after_a_failover() -> None:
    with RedisSentinel() as servers, SentinelHarness(servers.uri + "?durability=wait:1:2000") as harness:
        board, watcher = harness.board(patience=20.0), None
        jobs = board.post_many([Posting("resize") for _ in range(5)])
        [claimed] = board.claim_next("alice", expiry=LONG)
        watcher = harness.board(board.name)
        found: list[str] = []
        waiting = threading.Thread(target=lambda: found.extend(job.uuid for job in watcher.wait(60, ["rotate"])))
        waiting.start()
        servers.fail_over()
        eventually(lambda: _consume(board, claimed), within=30)
        assert claimed.state is JobState.COMPLETE
        assert [job.uuid for job in board.iterjobs()] == [job.uuid for job in jobs[1:]]
        late = board.post("rotate")
        waiting.join(30)
        assert found == [late.uuid]


#: A failover loses nothing that was acknowledged, since the one replica that there is has all of it.
_ON_REPLICA = "?durability=wait:1:500"


def test_a_sentinel_fails_over_under_load(tmp_path: Path) -> None:
    """The first Sentinel of the URI is down; the primary is killed, and comes back as a replica."""
    with RedisSentinel() as servers:
        uri = servers.uri.replace("://", f"://{HOST}:{free_port()},")
        goes_on(servers.kill_primary, uri + _ON_REPLICA, tmp_path, socket_timeout=2.0)


def test_a_cluster_fails_over_under_load(tmp_path: Path) -> None:
    """The first node of the URI, which has the board, is killed, and comes back as a replica of the one that it had."""
    with RedisCluster() as cluster:
        primary, _ = _owner_of(cluster, f"{{jobboard:{BOARD}}}")
        cluster.nodes.sort(key=lambda node: node is not primary)
        replica = cluster.add_replica(primary)

        def fail_over() -> None:
            primary.kill()
            with replica.client() as client:
                eventually(lambda: client.info("replication")["role"] == "master", within=30)
            primary.start()

        goes_on(fail_over, cluster.uri + _ON_REPLICA, tmp_path, socket_timeout=2.0)


@pytest.mark.parametrize(("option", "settings"), [("?durability=wait:1:500", {}), ("", {"min-replicas-to-write": "1"})])
def test_a_primary_that_was_replaced_and_does_not_know_it_is_left_at_once(
    option: str, settings: dict[str, str]
) -> None:
    """A Sentinel leaves it a primary for some ten seconds: it knows only that its replicas have gone."""
    with RedisSentinel(settings, followers=1) as servers, SentinelHarness(servers.uri + option) as harness:
        board = harness.board(patience=4.0)
        board.post("resize")
        servers.fail_over()
        with servers.primary.client() as client:
            eventually(lambda: client.info("replication")["connected_slaves"] == 0)
            eventually(lambda: _answers(lambda: board.post("rotate")), within=8)
            assert client.info("replication")["role"] == "master"
        assert list(harness.board(board.name).iterjobs(names=["rotate"]))


def _answers(call: Callable[[], object]) -> bool:
    try:
        call()
    except BoardUnavailable:
        return False
    return True


def _consume(board: Any, job: Any) -> bool:
    """While the old primary steps down, a request may be refused; that is the user's to repeat."""
    try:
        board.consume(job, "alice", "done")
    except BoardUnavailable:
        return False
    return True


def _owner_of(cluster: RedisCluster, key: str) -> tuple[RedisServer, int]:
    with cluster.nodes[0].client() as client:
        slot = client.execute_command("CLUSTER", "KEYSLOT", key)
        for first, last, (_, port, *_), *_ in client.execute_command("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(node for node in cluster.nodes if node.port == port), slot
    raise AssertionError(f"nobody has slot {slot}")


def test_a_board_follows_its_slot_and_refuses_whole_requests_while_it_moves() -> None:
    with RedisCluster() as cluster, ClusterHarness(cluster.uri) as harness:
        board = harness.board()
        jobs = board.post_many([Posting("resize", key=str(n)) for n in range(20)])
        [claimed] = board.claim_next("alice", expiry=LONG)
        # Somebody who only listens sends no requests, by which the others find out.
        received: list[str] = []
        harness.board(board.name).subscribe(lambda event: received.append(event.uuid or ""), ["POSTED"])
        key = f"{{jobboard:{board.name}}}"
        source, slot = _owner_of(cluster, key)
        target = next(node for node in cluster.nodes if node is not source)
        with source.client() as giver, target.client() as taker:
            giver_id, taker_id = (client.execute_command("CLUSTER", "MYID").decode() for client in (giver, taker))
            taker.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", giver_id)
            giver.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", taker_id)
            keys = giver.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 1000)
            half = len(keys) // 2
            _migrate(giver, target, keys[:half])
            requests = (lambda: board.post("resize"), lambda: board.consume(claimed, "alice"), board.stats)
            with ThreadPoolExecutor(len(requests)) as threads:
                for refused in [threads.submit(request) for request in requests]:
                    with pytest.raises(BoardUnavailable, match="slot is moving to another node"):
                        refused.result()
            _migrate(giver, target, keys[half:])
            for client in (taker, giver):
                client.execute_command("CLUSTER", "SETSLOT", slot, "NODE", taker_id)
        assert [job.uuid for job in board.iterjobs()] == [job.uuid for job in jobs]
        assert board.audit() == []
        board.consume(claimed, "alice", "done")
        late = board.post("rotate")
        assert next(iter(board.wait(10, ["rotate"]))) == late
        eventually(lambda: board.post("rotate").uuid in received)


def test_a_board_is_found_by_the_nodes_that_others_told_of() -> None:
    with RedisCluster() as cluster:
        owner, _ = _owner_of(cluster, "{jobboard:far}")
        seed = next(node for node in cluster.nodes if node is not owner)
        with fetch("far", f"redis+cluster://{HOST}:{seed.port}") as board:
            board.post("resize")
            with owner.client() as client:
                client.config_set("cluster-require-full-coverage", "no")
                seed.kill()
                client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            board.post("resize")
            assert board.job_count == 2


def _migrate(giver: redis.Redis, target: RedisServer, keys: list[bytes]) -> None:
    giver.execute_command("MIGRATE", HOST, target.port, "", 0, 5000, "KEYS", *keys)
