"""ZooKeeper under measurement: a server of the benchmark's own, and bare transactions of the same size by kazoo."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import kazoo.version
from kazoo.client import KazooClient

from benchmarks.space import Bare, Space, Store
from jobboard import fetch

_HOST = "127.0.0.1"
_JAR = Path("/usr/share/java/zookeeper.jar")
_MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

#: The bytes that the board writes into a job's znode and into its line of the log: by a post, a claim, a consume.
_POSTED, _CLAIMED, _CONSUMED = (63, 119), (166, 166), (128, 135)


class BareZooKeeper:
    """kazoo's own transactions, with the parts that the board's have: a claim sets a job under checks, and so on."""

    beside = "bare transactions"

    def __init__(self, hosts: str) -> None:
        self._client = KazooClient(hosts=hosts)
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


@contextmanager
def running_zookeeper() -> Iterator[str]:
    """Start a server in a folder of its own, which writes through to its disk as by default; return its URI."""
    java = shutil.which("java")
    if java is None or not _JAR.exists():
        raise SystemExit("ZooKeeper is missing; install the package zookeeper")
    with socket.socket() as trial:
        trial.bind((_HOST, 0))
        port = trial.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="jobboard-bench-", ignore_cleanup_errors=True) as folder:
        configuration = Path(folder) / "zoo.cfg"
        configuration.write_text(
            f"tickTime=1000\ndataDir={folder}/data\nclientPort={port}\nclientPortAddress={_HOST}\nmaxClientCnxns=0\n"
        )
        switches = ["-Xmx768m", "-Dzookeeper.admin.enableServer=false", "-Dzookeeper.4lw.commands.whitelist=*"]
        command = [java, *switches, "-cp", str(_JAR), _MAIN, str(configuration)]
        with (Path(folder) / "log").open("wb") as log:
            server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            _wait_for(port, server)
            yield f"zookeeper://{_HOST}:{port}"
        finally:
            server.kill()
            server.wait(10)


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            with socket.create_connection((_HOST, port), timeout=1) as line:
                line.sendall(b"ruok")
                if line.recv(4) == b"imok":
                    return
        except OSError:
            pass
        if server.poll() is not None or time.monotonic() > deadline:
            raise SystemExit("ZooKeeper did not start")
        time.sleep(0.05)


@contextmanager
def _zookeeper_space() -> Iterator[Space]:
    with running_zookeeper() as uri:

        @contextmanager
        def bare() -> Iterator[Bare]:
            limit = BareZooKeeper(uri.removeprefix("zookeeper://"))
            try:
                yield limit
            finally:
                limit.close()

        yield Space(lambda name: fetch(name, uri, least_interval=0.1), bare, uri, largest_backlog=50_000)


def _version() -> str:
    told = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", "zookeeper"], capture_output=True, text=True, check=False
    ).stdout
    return f"ZooKeeper {told or '(no Debian package)'}, kazoo {kazoo.version.__version__}"


ZOOKEEPER = Store(
    "zookeeper",
    _zookeeper_space,
    {
        "claim_next + consume one by one": "ratio >= 0.7",
        "claim_next + consume in batches of 100": ">= 5 x one by one",
        "claim_next with 50,000 waiting": "ratio <= 2",
        "pick-up in one process, p50": "< 10",
        "pick-up across processes, p50": "< 10",
    },
    _version,
)
