"""Shards on one Redis server: where their keys are, who is refused, and what an idle conductor costs."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import redis
from servers.redis_servers import RedisServer

from jobboard import BoardUnavailable, Conductor, Handlers, backend, fetch
from jobboard.cli.app import run as jobboard_command
from jobboard.testing import eventually


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


def test_each_shard_has_a_hash_tag_of_its_own(server: RedisServer) -> None:
    with backend("tags", f"{server.uri}?shards=4") as board, server.client() as client:
        for number in range(40):
            board.post("resize", key=str(number))
        tags = {key.partition(b"}")[0] for key in client.keys("{jobboard:tags*")}
    assert tags == {b"{jobboard:tags", *(f"{{jobboard:tags/{number}".encode() for number in range(4))}


@pytest.mark.parametrize("number", [8, 2, None])
def test_another_number_of_shards_is_refused_by_name(server: RedisServer, number: int | None) -> None:
    name = f"numbered-{number}"
    with backend(name, f"{server.uri}?shards=4") as board:
        job = board.post("resize")
    other = fetch(name, server.uri, **({} if number is None else {"shards": number}))
    with pytest.raises(BoardUnavailable, match=r"has 4 shards; open it with shards=4"):
        other.connect()
    with backend(name, server.uri, shards=4) as board:
        assert [each.uuid for each in board.iterjobs()] == [job.uuid]


def test_a_board_that_is_used_can_not_be_divided(server: RedisServer) -> None:
    with backend("whole", server.uri) as board:
        job = board.post("resize")
    with pytest.raises(BoardUnavailable, match="has no shards, and can't be divided"):
        fetch("whole", server.uri, shards=4).connect()
    with backend("whole", server.uri) as board:
        assert board.get(job.uuid) == job


def test_a_name_that_was_opened_and_never_used_can_be_divided(server: RedisServer) -> None:
    with backend("opened", server.uri):
        pass
    with backend("opened", server.uri, shards=2) as board:
        board.post("resize")
    with pytest.raises(BoardUnavailable, match="has 2 shards"):
        fetch("opened", server.uri).connect()


def test_the_shards_of_one_server_do_not_come_and_go(server: RedisServer, capsys: pytest.CaptureFixture[str]) -> None:
    with backend("fixed", server.uri, shards=2) as board:
        board.post("resize")
    for arguments in (["add", "redis://127.0.0.1:1/0"], ["open", "1"], ["drain", "1"], ["remove", "1"]):
        assert jobboard_command(["--board", f"{server.uri}?shards=2", "--name", "fixed", "shards", *arguments]) == 1
        assert "the number of shards of board 'fixed' is fixed" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["0", "1025", "x", "-1"])
def test_what_is_no_number_of_shards_is_refused(server: RedisServer, value: str) -> None:
    with pytest.raises(ValueError, match="shards: must be a number from 1 to 1024"):
        fetch("jobs", f"{server.uri}?shards={value}")
    with pytest.raises(ValueError, match="a shard can't have shards of its own"):
        fetch("jobs", "shards://", uris=[f"{server.uri}?shards=2"])


def test_an_idle_conductor_on_64_shards_asks_twice_a_second_at_most(server: RedisServer) -> None:
    """Beside them are the pings of what it listens with, one for each shard in 20 seconds."""
    with backend("idle", server.uri, shards=64) as board, server.client() as client:
        handlers = Handlers()
        handlers.add("resize", lambda job: None)
        conductor = Conductor("mill", board, handlers)
        conductor.start()
        try:
            eventually(lambda: board.entities() != [])
            # What it asks once comes first.
            time.sleep(5.0)
            before, began = _scripts_run(client), time.monotonic()
            time.sleep(20.0)
            assert _scripts_run(client) - before <= 2 * (time.monotonic() - began)
        finally:
            conductor.stop()


def _scripts_run(client: redis.Redis) -> int:
    return int(client.info("commandstats")["cmdstat_evalsha"]["calls"])
