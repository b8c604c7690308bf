"""The harness of the ZooKeeper boards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient

from harnesses.server_harness import GARBAGE, ServerHarness
from jobboard.backends.address import Address
from jobboard.backends.zookeeper import ZooKeeperBackend
from jobboard.backends.zookeeper.job_record import decode, encode
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.stored_job import StoredJob
from jobboard.board import JobBoard


@contextmanager
def plain_client(uri: str) -> Iterator[KazooClient]:
    """A client of kazoo's own, started; stopped at the end of the ``with`` block."""
    address = Address.parse(uri)
    client = KazooClient(hosts=",".join(f"{host}:{port}" for host, port in address.hosts))
    client.start(15)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def a_plain_client() -> Any:
    """Return a fixture: a client of kazoo's own for the suite's ``server``, by which somebody writes past the board."""

    @pytest.fixture
    def client(server: Any) -> Iterator[KazooClient]:
        with plain_client(server.uri) as client:
            yield client

    return client


def path_of(board: JobBoard, uuid: str) -> str:
    """Return where a job of a board with the default root is."""
    return Layout("/jobboard", board.name).job(uuid)


def is_mutation(data: bytes) -> bool:
    """Whether these requests change a board: one of them is no read, and writes to the log, a book or an entity."""
    changes = False
    while len(data) >= 12:
        length = int.from_bytes(data[:4])
        changes = changes or int.from_bytes(data[8:12]) in {1, 2, 5, 14}
        data, part = data[4 + length :], data[: 4 + length]
        if changes and any(folder in part for folder in (b"/log/", b"/books/", b"/entities/")):
            return True
    return False


class ZooKeeperHarness(ServerHarness):
    backend_class = ZooKeeperBackend
    # A busy machine must not end a session, and the claims with it; no case waits for that.
    backend_options = {"session_timeout": 6.0}

    def corrupt(self, board: JobBoard, uuid: str) -> None:
        """The posting and the record share a znode; only the posting is damaged, and the token stays what it was."""
        path = path_of(board, uuid)
        with plain_client(self._uri) as client:
            data, stat = client.get(path)
            record = decode(uuid, data, stat)
            assert isinstance(record, StoredJob)
            record.body = GARBAGE
            client.set(path, encode(record), stat.version)

    def write_layout(self, board: JobBoard, number: str) -> str:
        path = Layout("/jobboard", board.name).number
        with plain_client(self._uri) as client:
            before, _ = client.get(path)
            client.set(path, number.encode())
        return str(before.decode())


def root_of(board: JobBoard) -> str:
    """Return the path of the znode that a board of the default root lies under."""
    return f"/jobboard/{board.name}"
