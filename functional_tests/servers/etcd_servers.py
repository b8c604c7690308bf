"""etcd servers of the tests' own: a single one, with TLS or users if wanted, and a cluster of three."""

from __future__ import annotations

import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import requests

from jobboard.testing import eventually
from servers.base import HOST, RunningServer, free_port, program


class EtcdServer(RunningServer):
    """One ``etcd``; it elects and gives up faster than a production server.

    :param options: further ones of its command line.
    :param durable: whether its data lie on a disk, and not in memory.
    """

    def __init__(
        self, *options: str, scheme: str = "http", verify: Any = True, cert: Any = None, durable: bool = False
    ) -> None:
        super().__init__([], None if durable else _folder_in_memory())
        self.port, self.peer_port = free_port(), free_port()
        self.scheme, self.verify, self.cert = scheme, verify, cert
        self.name = f"n{self.port}"
        self.options = options
        self.cluster = f"{self.name}={self.peer_url}"
        self._compose()

    def _compose(self) -> None:
        self.command = [
            # It collects garbage a quarter as often, which costs memory, and saves a fifth of its time. One thread at a
            # time need not wake others for each request, which saves a sixth.
            *("env", "GOGC=400", "GOMAXPROCS=1"),
            program("etcd", "etcd-server"),
            *("--name", self.name, "--data-dir", str(self.folder / "data")),
            *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
            *("--listen-peer-urls", self.peer_url, "--initial-advertise-peer-urls", self.peer_url),
            *("--initial-cluster", self.cluster, "--heartbeat-interval", "50", "--election-timeout", "300"),
            *("--snapshot-count", "10000", "--log-level", "warn", *self.options),
        ]

    def join(self, cluster: str) -> None:
        """Be a member of this cluster, given as ``name=url,...``."""
        self.cluster = cluster
        self._compose()

    @property
    def url(self) -> str:
        return f"{self.scheme}://{HOST}:{self.port}"

    @property
    def peer_url(self) -> str:
        return f"http://{HOST}:{self.peer_port}"

    @property
    def uri(self) -> str:
        return f"etcd://{HOST}:{self.port}/tests"

    def ask(self, path: str, payload: dict[str, Any] | None = None) -> Any:
        """Send a request of the API, past the library."""
        reply = requests.post(f"{self.url}/v3{path}", json=payload or {}, timeout=5, verify=self.verify, cert=self.cert)
        reply.raise_for_status()
        return reply.json()

    def answers(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            reply = requests.get(f"{self.url}/health", timeout=2, verify=self.verify, cert=self.cert)
            return bool(reply.json().get("health") == "true")
        except (requests.RequestException, ValueError):
            return False

    def is_leader(self) -> bool:
        status = self.ask("/maintenance/status")
        return bool(status.get("leader") == status["header"]["member_id"])

    def revision(self) -> int:
        return int(self.ask("/maintenance/status")["header"]["revision"])

    def compact(self) -> None:
        """Forget every revision but the present one."""
        self.ask("/kv/compaction", {"revision": str(self.revision()), "physical": True})

    def leases(self) -> list[int]:
        return [int(lease["ID"]) for lease in self.ask("/lease/leases").get("leases", ())]

    def revoke_all(self) -> None:
        for lease in self.leases():
            self.ask("/lease/revoke", {"ID": str(lease)})

    def stop(self) -> None:
        super().stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class EtcdCluster:
    """Three members."""

    def __init__(self) -> None:
        self.members = [EtcdServer() for _ in range(3)]
        cluster = ",".join(member.cluster for member in self.members)
        for member in self.members:
            member.join(cluster)

    @property
    def uri(self) -> str:
        return "etcd://" + ",".join(f"{HOST}:{member.port}" for member in self.members) + "/tests"

    def leader(self) -> EtcdServer:
        """Return the member that leads, once there is one."""
        running = [member for member in self.members if member.process.poll() is None]
        return eventually(lambda: next((member for member in running if _leads(member)), None))

    def __enter__(self) -> Self:
        # None of them answers before most are there.
        with ThreadPoolExecutor(len(self.members)) as threads:
            list(threads.map(EtcdServer.start, self.members))
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.stop()


def _leads(member: EtcdServer) -> bool:
    try:
        return member.is_leader()
    except requests.RequestException:
        return False


def _folder_in_memory() -> Path:
    """Return a new folder on a file system without a disk, if there is one: an etcd waits for its disk a lot."""
    shared = Path("/dev/shm")
    usable = shared.is_dir() and os.access(shared, os.W_OK)
    return Path(tempfile.mkdtemp(prefix="jobboard-", dir=shared if usable else None))
