"""Pauses that an older jobboard makes and ends: it knows nothing of who paused a name, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.redis_hand import Hand
from harnesses.redis_harness import RedisHarness
from harnesses.zookeeper_harness import ZooKeeperHarness, plain_client, root_of
from servers.etcd_servers import EtcdServer
from servers.redis_servers import RedisServer
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import JobBoard
from jobboard.backends.etcd import EtcdBackend
from jobboard.backends.etcd.txn import Txn, delete, put
from jobboard.board import client_of

#: Makes or ends a pause on a board as an older client writes it.
Older = Callable[[JobBoard, str | None, bool], object]


def on_redis(server: RedisServer) -> Older:
    def change(board: JobBoard, name: str | None, is_paused: bool) -> None:
        hand = Hand(server, board)
        hand("SADD" if is_paused else "SREM", "paused", name or "")
        hand.close()

    return change


def on_etcd(_: EtcdServer) -> Older:
    def change(board: JobBoard, name: str | None, is_paused: bool) -> None:
        backend = client_of(board).backend
        assert isinstance(backend, EtcdBackend)
        key = backend.keys.pause(name)
        backend.connection.send(Txn(then=[put(key, b"") if is_paused else delete(key)]))

    return change


def on_zookeeper(server: ZooKeeperServer) -> Older:
    def change(board: JobBoard, name: str | None, is_paused: bool) -> None:
        names = board.paused() | {name} if is_paused else board.paused() - {name}
        with plain_client(server.uri) as client:
            client.set(f"{root_of(board)}/paused", msgpack.packb(sorted(names, key=str)))

    return change


STORES = {
    "redis": (RedisServer, RedisHarness, on_redis),
    "etcd": (EtcdServer, EtcdHarness, on_etcd),
    "zookeeper": (ZooKeeperServer, ZooKeeperHarness, on_zookeeper),
}


def said(board: JobBoard) -> list[Any]:
    assert {pause.name for pause in board.pauses()} == board.paused()
    return [(pause.name, pause.by, pause.reason, pause.at is not None) for pause in board.pauses()]


@pytest.mark.parametrize("store", STORES)
def test_pauses_of_an_older_client_stand_beside_others_without_by_and_reason(store: str) -> None:
    server_class, harness_class, older_on = STORES[store]
    with server_class() as server, harness_class(server.uri) as harness:
        board, older = harness.board(), older_on(server)
        jobs = {name: board.post(name) for name in ("mail", "resize", "rotate")}
        older(board, "mail", True)
        board.pause("resize", by="ann", reason="a full disk")
        assert said(board) == [("mail", None, None, False), ("resize", "ann", "a full disk", True)]
        older(board, "rotate", True)
        assert said(board) == [
            ("mail", None, None, False), ("resize", "ann", "a full disk", True), ("rotate", None, None, False),
        ]  # fmt: skip
        assert board.claim_next("alice", limit=9) == []
        board.resume("rotate")
        assert said(board) == [("mail", None, None, False), ("resize", "ann", "a full disk", True)]
        board.resume("mail")
        older(board, "resize", False)
        assert (said(board), len(board.claim_next("alice", limit=9))) == ([], len(jobs))
        assert board.audit() == []


@pytest.mark.parametrize("store", STORES)
def test_what_was_known_of_a_pause_that_an_older_client_ended_is_told_of_no_later_one(store: str) -> None:
    server_class, harness_class, older_on = STORES[store]
    with server_class() as server, harness_class(server.uri) as harness:
        board, older = harness.board(), older_on(server)
        board.pause("mail", by="ann", reason="a full disk")
        older(board, "mail", False)
        # On Redis an older client leaves what nobody but this finds.
        client_of(board).backend.maintenance.tidy(100)
        older(board, "mail", True)
        assert said(board) == [("mail", None, None, False)]
        board.resume("mail")
        board.pause("mail", by="ann", reason="a full disk")
        older(board, "mail", False)
        board.pause("mail", reason="moving")
        assert said(board) == [("mail", None, "moving", True)]
