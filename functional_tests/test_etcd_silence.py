"""An etcd that accepts, and never answers: every call ends within the time that the docs state."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.silence import busy_conductor
from servers.base import HOST, free_port
from servers.etcd_servers import EtcdServer

from jobboard import BoardUnavailable, Entity, JobBoard, LogBook
from jobboard.backends.address import Address
from jobboard.backends.etcd import EtcdBackend
from jobboard.testing.contract.clockwork import firing

LONG = 600.0

#: How long a reply is waited for here; and how much longer a call may take on a machine that is busy with other things.
TIMEOUT, SLACK = 0.4, 4.0


@contextlib.contextmanager
def ends_within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds + SLACK


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of one that accepts and never answers."""
    with socket.create_server((HOST, 0)) as listener:
        yield listener.getsockname()[1]


def board_at(*ports: int, **options: Any) -> JobBoard:
    hosts = ",".join(f"{HOST}:{port}" for port in ports)
    return JobBoard("silence", EtcdBackend("silence", Address.parse(f"etcd://{hosts}/tests"), **options))


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("options", [{}, {"api_path": "/v3/"}], ids=["any version", "a version"])
def test_connect_ends_in_its_time(silent: int, members: int, options: dict[str, str]) -> None:
    with ends_within(1.0), pytest.raises(BoardUnavailable, match="can't be reached"):
        board_at(*[silent] * members, **options).connect(1.0)


def test_connect_finds_the_member_that_answers(silent: int) -> None:
    with EtcdServer() as server, board_at(silent, free_port(), server.port) as board:
        board.close()
        with ends_within(1.0):
            board.connect(1.5)
        board.post("resize")


class Impatient(EtcdHarness):
    backend_options = {"timeout": TIMEOUT}


@pytest.fixture(scope="module")
def frozen() -> Iterator[tuple[JobBoard, list[Any]]]:
    """A board with jobs of which two are claimed, whose server has stopped answering."""
    with EtcdServer() as server, Impatient(server.uri) as harness:
        # Until the server is silent, a busy one may take longer than it is given.
        board = harness.board(patience=60.0)
        board.post("resize")
        claimed = [board.post("rotate"), board.post("rotate")]
        for job in claimed:
            board.claim(job, "alice", LONG)
        board.stats()
        board._client.patience = 0.0
        server.freeze()
        yield board, claimed
        with ends_within(TIMEOUT + 2.0):
            board.close()
        server.thaw()


CALLS: dict[str, Callable[[JobBoard, list[Any]], object]] = {
    "post": lambda board, claimed: board.post("resize", key="k"),
    "claim": lambda board, claimed: board.claim(claimed[0], "bob"),
    "claim_next": lambda board, claimed: board.claim_next("bob", ["resize"], 9, 77.0),
    "extend": lambda board, claimed: board.extend(claimed[0], "alice", 88.0),
    "checkpoint": lambda board, claimed: board.checkpoint(claimed[0], "alice", 1),
    "consume": lambda board, claimed: board.consume(claimed[0], "alice"),
    "abandon": lambda board, claimed: board.abandon(claimed[1], "alice"),
    "cancel": lambda board, claimed: board.cancel(claimed[1]),
    "get": lambda board, claimed: board.get(claimed[0].uuid),
    "iterjobs": lambda board, claimed: list(board.iterjobs()),
    "stats": lambda board, claimed: board.stats(),
    "count": lambda board, claimed: board.job_count,
    "subscribe": lambda board, claimed: board.subscribe(lambda event: None),
    "trashed": lambda board, claimed: list(board.trashed()),
    "release": lambda board, claimed: board.release(claimed[0], reason="why"),
    "pause": lambda board, claimed: board.pause(),
    "paused": lambda board, claimed: board.paused(),
    "audit": lambda board, claimed: board.audit(repair=True),
    "register_entity": lambda board, claimed: board.register_entity(Entity("conductor", "a")),
    "entities": lambda board, claimed: board.entities(),
    "save_book": lambda board, claimed: board.save_book(LogBook("journal")),
    "schedules": lambda board, claimed: list(board.schedules),
    "fire_due": lambda board, claimed: firing(board).fire_due(9),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_call_of_a_frozen_server_ends_in_its_time(frozen: tuple[JobBoard, list[Any]], call: str) -> None:
    with ends_within(TIMEOUT), pytest.raises(BoardUnavailable):
        CALLS[call](*frozen)


def test_a_wait_for_a_frozen_server_ends_in_its_time(frozen: tuple[JobBoard, list[Any]]) -> None:
    board, _ = frozen
    board._client._tidied_at = -LONG
    with ends_within(0.1 + 2 * TIMEOUT), pytest.raises(BoardUnavailable):
        list(board.wait(0.1))


def test_a_conductor_stops_in_its_time_beside_a_frozen_server() -> None:
    with EtcdServer() as server, EtcdHarness(server.uri) as harness:
        board = harness.board()
        with busy_conductor(board, "resize") as conductor:
            server.freeze()
            with ends_within(1.0):
                assert conductor.stop(drain=False, timeout=1.0) is False
            server.thaw()
