"""What a board asks of a Redis server before it trusts it, and what a mutation waits for."""

from __future__ import annotations

import logging
import socket
import threading
import uuid as uuids
from collections.abc import Callable, Iterator

import pytest
from servers.base import HOST, free_port
from servers.redis_servers import RedisServer

from jobboard import BoardUnavailable, Job, JobBoard, Posting, fetch
from jobboard.backends import warn_once
from jobboard.testing import eventually


def test_a_server_that_throws_keys_away_is_refused_unless_told_otherwise() -> None:
    with RedisServer({"maxmemory-policy": "volatile-lru", "maxmemory": "64mb"}) as server:
        with pytest.raises(BoardUnavailable, match="volatile-lru.*allow_eviction=true"):
            fetch("x", server.uri).connect()
        with fetch("x", f"{server.uri}?allow_eviction=true") as board:
            assert board.post("resize").state == "UNCLAIMED"


def test_each_server_that_keeps_nothing_is_warned_of_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process that has run many tests remembers as much as it may, and warns of nothing more.
    monkeypatch.setattr(warn_once, "_warned", set())
    with RedisServer() as one, RedisServer() as another, caplog.at_level(logging.WARNING, "jobboard.redis"):
        for uri in (one.uri, one.uri, another.uri, one.uri):
            for name in ("x", "y", "z"):
                with fetch(name, uri):
                    pass
    told = [record.message for record in caplog.records]
    assert len(told) == 2
    for text, server in zip(told, (one, another), strict=True):
        assert f":{server.port} keeps nothing on disk" in text


def test_a_server_that_saves_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with RedisServer({"save": "3600 1"}) as server, caplog.at_level(logging.WARNING), fetch("x", server.uri):
        assert caplog.text == ""


def test_an_append_only_file_is_no_reason_to_warn(caplog: pytest.LogCaptureFixture) -> None:
    with RedisServer({"appendonly": "yes"}) as server, fetch("x", server.uri):
        assert caplog.text == ""


def test_waiting_for_the_disk_needs_a_newer_server() -> None:
    with RedisServer({"appendonly": "yes"}) as server:
        with server.client() as client:
            version = tuple(int(part) for part in client.info()["redis_version"].split(".")[:2])
        board = fetch("x", f"{server.uri}?durability=aof")
        if version < (7, 2):
            with pytest.raises(BoardUnavailable, match=r"WAITAOF.*7\.2"):
                board.connect()
        else:
            with board:
                board.post("resize")


def test_waiting_for_replicas_is_part_of_each_mutation() -> None:
    with RedisServer() as primary, RedisServer({"replicaof": f"{HOST} {primary.port}"}) as replica:
        with replica.client() as client:
            eventually(lambda: client.info("replication")["master_link_status"] == "up")
        with fetch("x", f"{primary.uri}?durability=wait:1:2000") as board:
            job = board.post("resize")
            with replica.client() as client:
                assert client.hexists("{jobboard:x}:jobs", job.uuid)
            [claimed] = board.claim_next("alice")
            board.consume(claimed, "alice")
        replica.freeze()
        with (
            fetch("x", f"{primary.uri}?durability=wait:1:50", patience=0.2) as board,
            pytest.raises(BoardUnavailable, match="unknown.*WAIT was not reached"),
        ):
            board.post("resize")
        replica.thaw()


def test_a_server_that_is_too_old_is_refused() -> None:
    """No such server can be installed beside the others, so one that only says so stands in for it."""
    listener = socket.create_server((HOST, 0))

    def answer() -> None:
        connection, _ = listener.accept()
        info = b"# Server\r\nredis_version:6.2.14\r\n"
        while data := connection.recv(65536):
            for _ in range(data.count(b"*")):
                wants_info = b"INFO" in data and b"CLIENT" not in data
                connection.sendall(b"$%d\r\n%s\r\n" % (len(info), info) if wants_info else b":0\r\n")
        connection.close()

    threading.Thread(target=answer, daemon=True).start()
    with pytest.raises(BoardUnavailable, match=r"6\.2\.14.*7\.0"):
        fetch("x", f"redis://{HOST}:{listener.getsockname()[1]}").connect()
    listener.close()


def test_a_port_on_which_nobody_listens_is_one_clear_line() -> None:
    port = free_port()
    with pytest.raises(BoardUnavailable, match=f"{HOST}:{port} can't be reached"):
        fetch("x", f"redis://{HOST}:{port}").connect(timeout=1.0)


@pytest.fixture
def frozen_replica() -> Iterator[RedisServer]:
    """A primary whose only replica has everything up to now, and then stops."""
    with RedisServer() as primary, RedisServer({"replicaof": f"{HOST} {primary.port}"}) as replica:
        with replica.client() as client:
            eventually(lambda: client.info("replication")["master_link_status"] == "up")
        with fetch("x", f"{primary.uri}?durability=wait:1:2000") as board:
            board.post("resize")
        replica.freeze()
        yield primary
        replica.thaw()


def test_a_repeat_that_changes_nothing_waits_for_what_the_first_one_changed(frozen_replica: RedisServer) -> None:
    uuid = str(uuids.uuid4())
    for _ in range(2):
        with (
            fetch("x", f"{frozen_replica.uri}?durability=wait:1:50", patience=0.2) as board,
            pytest.raises(BoardUnavailable, match="unknown.*WAIT was not reached"),
        ):
            board.post("resize", uuid=uuid)


def test_claims_found_again_are_waited_for(frozen_replica: RedisServer) -> None:
    with (
        fetch("x", f"{frozen_replica.uri}?durability=wait:1:50", patience=0.2) as board,
        pytest.raises(BoardUnavailable, match="unknown.*WAIT was not reached"),
    ):
        board.claim_next("alice")
    with frozen_replica.client() as client:
        assert client.zcard("{jobboard:x}:leases") == 1


_CHANGES: tuple[Callable[[JobBoard, Job], object], ...] = (
    lambda board, job: board.extend(job, "alice", 60),
    lambda board, job: board.checkpoint(job, "alice", "a"),
    lambda board, job: board.abandon(job, "alice"),
    lambda board, job: board.consume(job, "alice"),
    lambda board, job: board.trash(job, "alice"),
    lambda board, job: board.release(job, reason="its host is gone"),
    lambda board, job: board.cancel(job),
    lambda board, _: board.pause("resize"),
    lambda board, _: board.resume("resize"),
)


def test_a_repeat_that_finds_its_work_done_waits_for_the_first_try(frozen_replica: RedisServer) -> None:
    with fetch("x", frozen_replica.uri) as board:
        board.post_many([Posting("resize")] * len(_CHANGES))
        jobs = board.claim_next("alice", limit=len(_CHANGES))
    with (
        fetch("x", f"{frozen_replica.uri}?durability=wait:1:50", patience=0.2) as board,
        frozen_replica.client() as client,
    ):
        for change, job in zip(_CHANGES, jobs, strict=True):
            client.delete("{jobboard:x}:waited")
            with pytest.raises(BoardUnavailable, match="WAIT was not reached"):
                change(board, job)
            # Redis 8 and Valkey wait only for what the same connection has written; those before, for all.
            assert client.exists("{jobboard:x}:waited")


def test_a_server_that_writes_through_need_not_be_asked_to_wait() -> None:
    with RedisServer({"appendonly": "yes", "appendfsync": "always"}) as server:
        with fetch("x", f"{server.uri}?durability=aof") as board:
            job = board.post("resize")
        server.kill()
        server.start()
        with fetch("x", server.uri) as board:
            assert board.get(job.uuid).name == "resize"


def test_a_server_that_stops_writing_through_is_not_trusted_after_a_break() -> None:
    """After a failover the board may be on a server with other settings."""
    with (
        RedisServer({"appendonly": "yes", "appendfsync": "always"}) as server,
        fetch("x", f"{server.uri}?durability=aof", patience=0.2) as board,
    ):
        board.post("resize")
        with server.client() as client:
            client.config_set("appendfsync", "everysec")
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        with pytest.raises(BoardUnavailable, match="appendfsync always no more"):
            board.post("resize")
