"""The harness of the ZooKeeper boards."""

from __future__ import annotations

from kazoo.client import KazooClient

from jobboard.address import Address
from jobboard.backends.zookeeper import ZooKeeperBackend
from jobboard.backends.zookeeper.layout import Layout
from jobboard.backends.zookeeper.wire import pack, unpack
from jobboard.board import JobBoard
from jobboard.testing import Harness

GARBAGE = b"\xc1 no posting"


def plain_client(uri: str) -> KazooClient:
    """Return a client of kazoo's own, started."""
    address = Address.parse(uri)
    client = KazooClient(hosts=",".join(f"{host}:{port}" for host, port in address.hosts))
    client.start(15)
    return client


class ZooKeeperHarness(Harness):
    """A harness onto servers that run already."""

    backend_class = ZooKeeperBackend
    backend_options = {"session_timeout": 4.0}

    def __init__(self, uri: str) -> None:
        super().__init__()
        self._uri = uri

    def uri(self) -> str:
        return self._uri

    def corrupt(self, board: JobBoard, uuid: str) -> None:
        """The posting and the record share a znode; only the posting is damaged."""
        client = plain_client(self._uri)
        path = Layout("/jobboard", board.name).job(uuid)
        data, stat = client.get(path)
        parts = unpack(data)
        parts[-1][0] = GARBAGE
        client.set(path, pack(parts), stat.version)
        client.stop()
        client.close()
