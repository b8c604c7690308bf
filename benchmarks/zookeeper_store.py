"""ZooKeeper under measurement: a server of the benchmark's own, and bare transactions of the same size by kazoo."""

from __future__ import annotations

import subprocess
import uuid

import kazoo.version
from kazoo.client import KazooClient
from servers.zookeeper_servers import ZooKeeperServer

from benchmarks.space import Store, space_of

#: The bytes that the board writes into a job's znode and into its line of the log: by a post, a claim, a consume.
_POSTED, _CLAIMED, _CONSUMED = (63, 119), (166, 166), (128, 135)


class BareZooKeeper:
    """kazoo's own transactions, with the parts that the board's have: a claim sets a job under checks, and so on."""

    beside = "bare transactions"

    def __init__(self, server: ZooKeeperServer) -> None:
        self._client = KazooClient(hosts=server.place)
        self._client.start()
        # As long as the path of a board.
        self._root = f"/bare-{uuid.uuid4().hex[:11]}"
        for folder in ("jobs", "log", "session", "paused", "ready", "deleted"):
            self._client.ensure_path(f"{self._root}/{folder}")
        self._posted: list[str] = []

    def post(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            transaction = self._client.transaction()
            paths = [f"{self._root}/jobs/{uuid.uuid4()}" for _ in range(batch)]
            for path in paths:
                transaction.create(path, b"x" * _POSTED[0])
            transaction.set_data(f"{self._root}/ready", b"")
            self._commit(transaction, _POSTED[1] * batch)
            self._posted += paths
        return count

    def claim_and_consume(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            paths, self._posted = self._posted[:batch], self._posted[batch:]
            claim = self._client.transaction()
            for folder in ("deleted", "session", "paused", "ready"):
                claim.check(f"{self._root}/{folder}", -1)
            for path in paths:
                claim.set_data(path, b"x" * _CLAIMED[0], 0)
            self._commit(claim, _CLAIMED[1] * batch)
            consume = self._client.transaction()
            consume.check(f"{self._root}/deleted", -1)
            for path in paths:
                consume.set_data(path, b"x" * _CONSUMED[0], 1)
            self._commit(consume, _CONSUMED[1] * batch)
        return count

    def _commit(self, transaction: object, line: int) -> None:
        transaction.create(f"{self._root}/log/c-", b"x" * line, sequence=True)  # type: ignore[attr-defined]
        results = transaction.commit()  # type: ignore[attr-defined]
        if any(isinstance(result, Exception) for result in results):
            raise AssertionError(f"a bare transaction failed in a benchmark: {results}")

    def close(self) -> None:
        self._client.stop()
        self._client.close()


def zookeeper_server() -> ZooKeeperServer:
    """Return a server with Java's and ZooKeeper's own settings, which writes through to its disk."""
    settings = {"zookeeper.preAllocSize": "65536"}
    return ZooKeeperServer("tickTime=1000", heap=768, durable=True, settings=settings, java=())


def _version() -> str:
    told = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", "zookeeper"], capture_output=True, text=True, check=False
    ).stdout
    return f"ZooKeeper {told or '(no Debian package)'}, kazoo {kazoo.version.__version__}"


ZOOKEEPER = Store(
    "zookeeper",
    space_of(zookeeper_server, BareZooKeeper, largest_backlog=50_000),
    {
        "claim_next + consume one by one": "ratio >= 0.7",
        "claim_next + consume in batches of 100": ">= 5 x one by one",
        "claim_next with 50,000 waiting": "ratio <= 2",
        "pick-up in one process, p50": "< 10",
        "pick-up across processes, p50": "< 10",
    },
    _version,
)
