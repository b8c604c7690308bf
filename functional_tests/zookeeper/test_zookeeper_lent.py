"""Boards on a kazoo client that somebody else started."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from harnesses.fixtures import a_harness, a_server
from harnesses.zookeeper_harness import ZooKeeperHarness, a_plain_client, plain_client
from kazoo.client import KazooClient
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import BoardUnavailable, JobEvent, fetch
from jobboard.testing import eventually

LONG = 600.0

server = a_server(ZooKeeperServer)
harness = a_harness(ZooKeeperHarness)
lent = a_plain_client()


@pytest.fixture
def quiet() -> Iterator[ZooKeeperServer]:
    """A server on which no session of another test ends."""
    with ZooKeeperServer() as server:
        yield server


def test_fifty_boards_leave_a_lent_client_as_they_found_it(quiet: ZooKeeperServer) -> None:
    with plain_client(quiet.uri) as lent:

        def state() -> Any:
            figures = quiet.figures()
            return (
                len(lent.state_listeners),
                {path for path, watchers in lent._data_watchers.items() if watchers},
                {path for path, watchers in lent._child_watchers.items() if watchers},
                sorted(thread.name for thread in threading.enumerate()),
                figures["ephemerals_count"],
                figures["watch_count"],
            )

        before = state()
        for _ in range(50):
            with fetch("lent", "zookeeper", client=lent) as board:
                end = board.subscribe(lambda event: None)
                board.post("resize")
                [job] = board.claim_next("alice")
                board.consume(job, "alice")
                assert list(board.wait(0)) == []
                end()
        eventually(lambda: state() == before)
        assert lent.connected
        assert lent.get_children("/jobboard") == ["lent"]


def test_two_boards_on_a_lent_client_do_not_disturb_each_other(lent: KazooClient) -> None:
    first, second = fetch("shared", "zookeeper", client=lent), fetch("shared", "zookeeper", client=lent)
    first.connect()
    second.connect()
    received: list[JobEvent] = []
    ends = [board.subscribe(into) for board, into in ((first, lambda event: None), (second, received.append))]
    first.post("resize")
    eventually(lambda: len(received) == 1)
    ends[0]()
    first.close()
    job = second.post("resize")
    eventually(lambda: [event.uuid for event in received][1:] == [job.uuid])
    second.close()


def test_a_claim_outlives_the_close_of_a_board_on_a_lent_client(lent: KazooClient, harness: ZooKeeperHarness) -> None:
    other = harness.board()
    job = other.post("resize")
    with fetch(other.name, "zookeeper", client=lent) as board:
        board.claim(job.uuid, "alice", LONG)
    assert other.find_owner(job) == "alice"


def test_a_lent_client_that_is_not_started_is_said_to_be(server: ZooKeeperServer) -> None:
    board = fetch("shared", "zookeeper", client=KazooClient(hosts=server.place))
    with pytest.raises(BoardUnavailable, match="start"):
        board.connect()


@pytest.mark.parametrize("conf", ["zookeeper://127.0.0.1:1", "zookeeper://user:secret@"])
def test_a_lent_client_has_its_own_address(lent: KazooClient, conf: str) -> None:
    with pytest.raises(ValueError, match="client"):
        fetch("shared", conf, client=lent)
