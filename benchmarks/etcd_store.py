"""etcd under measurement: a server of the benchmark's own, and bare requests of the same size by etcd3gw."""

from __future__ import annotations

import importlib.metadata
import subprocess
import uuid
from base64 import b64decode, b64encode
from typing import Any

from etcd3gw.client import Etcd3Client
from servers.base import HOST
from servers.etcd_servers import EtcdServer

from benchmarks.space import Store, space_of

#: The bytes that the board writes as a job's record, as its place in a line, and as a claim.
_RECORD, _PLACE, _CLAIM = b"x" * 190, b"x" * 60, b"x" * 90

#: A batch of the board is one transaction, and this is what a server takes in one.
_BATCH = 50


class BareEtcd:
    """etcd3gw's own requests: a post is a transaction, a claim a look at the head and one, and so is an end."""

    beside = "bare etcd3gw"

    def __init__(self, server: EtcdServer) -> None:
        self._client = Etcd3Client(HOST, server.port)
        self._root = f"/bare-{uuid.uuid4()}"
        self._number = 0
        self._lease = self._client.lease(3600)

    def post(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            jobs = [f"{self._number + at:020d}" for at in range(batch)]
            self._number += batch
            puts = [self._put(f"job/{job}", _RECORD) for job in jobs] + [
                self._put(f"ready/{job}", _PLACE) for job in jobs
            ]
            self._commit([self._absent(f"job/{job}") for job in jobs], puts)
        return count

    def claim_and_consume(self, count: int, batch: int) -> int:
        for _ in range(0, count, batch):
            head = {"key": self._key("ready/"), "range_end": self._key("ready0"), "limit": batch}
            found = self._client.post(self._client.get_url("/kv/range"), json=head)
            jobs = [b64decode(kv["key"]).decode().rpartition("/")[2] for kv in found["kvs"]]
            locks = [self._put(f"lock/{job}", _CLAIM, self._lease.id) for job in jobs]
            gone = [self._delete(f"ready/{job}") for job in jobs]
            revision = self._commit([self._absent(f"lock/{job}") for job in jobs], locks + gone)
            held = [
                {"key": self._key(f"lock/{job}"), "target": "MOD", "result": "EQUAL", "mod_revision": revision}
                for job in jobs
            ]
            done = [self._put(f"job/{job}", _RECORD, self._lease.id) for job in jobs]
            self._commit(held, done + [self._delete(f"lock/{job}") for job in jobs])
        return count

    def _commit(self, compares: list[Any], steps: list[Any]) -> str:
        reply = self._client.transaction({"compare": compares, "success": steps, "failure": []})
        if not reply.get("succeeded"):
            raise AssertionError(f"a bare transaction failed in a benchmark: {reply}")
        revision: str = reply["header"]["revision"]
        return revision

    def _key(self, name: str) -> str:
        return b64encode(f"{self._root}/{name}".encode()).decode()

    def _put(self, name: str, value: bytes, lease: int = 0) -> Any:
        return {"request_put": {"key": self._key(name), "value": b64encode(value).decode(), "lease": str(lease)}}

    def _delete(self, name: str) -> Any:
        return {"request_delete_range": {"key": self._key(name)}}

    def _absent(self, name: str) -> Any:
        return {"key": self._key(name), "target": "CREATE", "result": "EQUAL", "create_revision": "0"}

    def close(self) -> None:
        self._client.session.close()


def etcd_server(*options: str) -> EtcdServer:
    """Return a server with etcd's own settings, which writes through to its disk."""
    own = ("--heartbeat-interval", "100", "--election-timeout", "1000", "--snapshot-count", "100000")
    return EtcdServer(*own, *options, durable=True)


def compacting_server() -> EtcdServer:
    """Return a server that forgets old revisions each minute, and has 10,000 requests in memory: the default of 3.6."""
    own = ("--auto-compaction-mode", "periodic", "--auto-compaction-retention", "1m", "--snapshot-count", "10000")
    return etcd_server(*own)


def _version() -> str:
    told = subprocess.run(["etcd", "--version"], capture_output=True, text=True, check=False).stdout
    libraries = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("etcd3gw", "requests", "urllib3"))
    return f"etcd {told.partition(': ')[2].partition(chr(10))[0]}, {libraries}"


ETCD = Store(
    "etcd",
    space_of(etcd_server, BareEtcd, largest_backlog=50_000, batch=_BATCH),
    {
        "claim_next + consume one by one": "ratio >= 0.6",
        f"claim_next + consume in batches of {_BATCH}": ">= 8 x one by one",
        "claim_next with 50,000 waiting": "ratio <= 1.5",
        "pick-up in one process, p50": "< 15",
        "pick-up across processes, p50": "< 15",
    },
    _version,
)
