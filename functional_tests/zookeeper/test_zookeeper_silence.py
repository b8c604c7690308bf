"""A ZooKeeper that accepts and never answers: every call ends within the time that the docs state."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from harnesses import silence
from harnesses.silence import board_that_claims, ends_in
from harnesses.zookeeper_harness import ZooKeeperHarness
from servers.base import HOST
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import BoardUnavailable, Entity, JobBoard
from jobboard.backends.address import Address
from jobboard.backends.zookeeper import ZooKeeperBackend

LONG = 600.0
SOME = "6a2f41a3-c54c-4a8f-8c6e-0d1b7e1f1b5e"

#: How long a reply is waited for here.
TIMEOUT = 0.4
#: Seconds for which a close waits in all.
CLOSE_TIMEOUT = 3.0


@pytest.mark.parametrize("hosts", [1, 3])
def test_connect_to_a_server_that_never_answers_ends_in_its_time(hosts: int) -> None:
    with socket.create_server((HOST, 0)) as listener:
        place = f"{HOST}:{listener.getsockname()[1]}"
        address = Address.parse(f"zookeeper://{','.join([place] * hosts)}")
        board = JobBoard("silence", ZooKeeperBackend("silence", address, session_timeout=30.0))
        with ends_in(1.0), pytest.raises(BoardUnavailable, match="can't be reached"):
            board.connect(1.0)
        assert not board.connected


class Impatient(ZooKeeperHarness):
    backend_options = {"session_timeout": 30.0, "request_timeout": TIMEOUT}


@pytest.fixture(scope="module")
def frozen() -> Iterator[tuple[JobBoard, list[Any]]]:
    """A board that listens, with jobs of which two are claimed, whose server has stopped answering."""
    with ZooKeeperServer("maxSessionTimeout=60000") as server, Impatient(server.uri) as harness:
        board, claimed = board_that_claims(harness)
        board.subscribe(lambda event: None)
        server.freeze()
        yield board, claimed
        server.thaw()


CALLS = {
    **silence.CALLS,
    "post long": lambda board, claimed: board.post("resize", details={"text": "x" * 5000}),
    "trash": lambda board, claimed: board.trash(claimed[0], by="an operator"),
    "restore": lambda board, claimed: board.restore(SOME),
    "find": lambda board, claimed: board.find("resize", "k"),
    "wait": lambda board, claimed: list(board.wait(60)),
    "job.wait": lambda board, claimed: claimed[0].wait(60),
    "remove_entity": lambda board, claimed: board.remove_entity(Entity("conductor", "a")),
    "load_book": lambda board, claimed: board.load_book(SOME),
    "destroy_book": lambda board, claimed: board.destroy_book(SOME),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_call_of_a_frozen_server_ends_in_its_time(frozen: tuple[JobBoard, list[Any]], call: str) -> None:
    with ends_in(TIMEOUT), pytest.raises(BoardUnavailable):
        CALLS[call](*frozen)


@pytest.mark.parametrize("claims", [True, False])
def test_a_close_ends_in_its_time(claims: bool) -> None:
    with ZooKeeperServer("maxSessionTimeout=60000") as server, Impatient(server.uri) as harness:
        board = harness.board()
        board.subscribe(lambda event: None)
        board.post("resize")
        if claims:
            board.claim_next("alice", expiry=LONG)
        server.freeze()
        with ends_in(CLOSE_TIMEOUT):
            board.close()
        server.thaw()
        board.connect()
        assert board.job_count == 1
