"""An etcd that accepts, and never answers: every call ends within the time that the docs state."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from harnesses import silence
from harnesses.etcd_harness import EtcdHarness
from harnesses.silence import board_that_claims, busy_conductor, ends_in
from servers.base import HOST, free_port
from servers.etcd_servers import EtcdServer
from servers.proxy import Proxy

from jobboard import BoardUnavailable, JobBoard
from jobboard.backends.address import Address
from jobboard.backends.etcd import EtcdBackend
from jobboard.testing import eventually

LONG = 600.0

#: How long a reply is waited for here.
TIMEOUT = 0.4


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
    with ends_in(1.0), pytest.raises(BoardUnavailable, match="can't be reached"):
        board_at(*[silent] * members, **options).connect(1.0)


def test_connect_finds_the_member_that_answers(silent: int) -> None:
    with EtcdServer() as server, board_at(silent, free_port(), server.port) as board:
        board.close()
        with ends_in(1.0):
            board.connect(1.5)
        board.post("resize")


def test_one_request_meets_idle_connections_that_died_in_silence() -> None:
    """As a firewall leaves them that has forgotten all: the other ones are not used any more."""
    number = 4
    with EtcdServer() as server, Proxy((HOST, server.port)) as proxy, board_at(proxy.port, timeout=3.0) as board:

        def read_at_once() -> None:
            known = len(proxy._pairs)
            proxy.silence()
            readers = [threading.Thread(target=lambda: board.job_count) for _ in range(number)]
            for reader in readers:
                reader.start()
            # One of them has the connection that was used last.
            eventually(lambda: len(proxy._pairs) == known + number - 1)
            proxy.speak()
            for reader in readers:
                reader.join()

        read_at_once()
        proxy.mute(lambda _: True)
        with pytest.raises(BoardUnavailable):
            assert board.job_count == 0
        assert board.job_count == 0
        read_at_once()


class Impatient(EtcdHarness):
    backend_options = {"timeout": TIMEOUT}


@pytest.fixture(scope="module")
def frozen() -> Iterator[tuple[JobBoard, list[Any]]]:
    """A board with jobs of which two are claimed, whose server has stopped answering."""
    with EtcdServer() as server, Impatient(server.uri) as harness:
        board, claimed = board_that_claims(harness)
        server.freeze()
        yield board, claimed
        with ends_in(TIMEOUT + 2.0):
            board.close()
        server.thaw()


CALLS = {
    **silence.CALLS,
    "count": lambda board, claimed: board.job_count,
}


@pytest.mark.parametrize("call", CALLS)
def test_every_call_of_a_frozen_server_ends_in_its_time(frozen: tuple[JobBoard, list[Any]], call: str) -> None:
    with ends_in(TIMEOUT), pytest.raises(BoardUnavailable):
        CALLS[call](*frozen)


def test_a_wait_for_a_frozen_server_ends_in_its_time(frozen: tuple[JobBoard, list[Any]]) -> None:
    board, _ = frozen
    board._client._tidied_at = -LONG
    with ends_in(0.1 + 2 * TIMEOUT), pytest.raises(BoardUnavailable):
        list(board.wait(0.1))


def test_a_conductor_stops_in_its_time_beside_a_frozen_server() -> None:
    with EtcdServer() as server, EtcdHarness(server.uri) as harness:
        board = harness.board()
        with busy_conductor(board, "resize") as conductor:
            server.freeze()
            with ends_in(1.0):
                assert conductor.stop(drain=False, timeout=1.0) is False
            server.thaw()
