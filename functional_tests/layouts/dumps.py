"""The boards of earlier layouts: what is on them, and how each store's content is written to a file and put back."""

from __future__ import annotations

import ast
import base64
import json
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import requests
from kazoo.client import KazooClient
from servers.base import HOST
from servers.etcd_servers import EtcdServer
from servers.mariadb_servers import MariadbServer
from servers.postgresql_servers import PostgresqlServer, programs
from servers.redis_servers import RedisServer
from servers.zookeeper_servers import ZooKeeperServer

from jobboard import Every, JobBoard, LogBook, Schedule, backend
from jobboard.backends.layout import LAYOUT

NAME = "orders"
#: A board with lanes and limits, of layout 3 and later.
LANES = "tenants"
#: A moment that no test sees.
FAR = datetime(2096, 1, 1, tzinfo=UTC)


def fill(board: JobBoard) -> None:
    """Put a job of each state on a board, and whatever else lies there. Nothing of it ends by time."""
    for number, (name, priority) in enumerate([("low", "low"), ("second", "normal"), ("first", "high")]):
        board.post(name, details={"number": number}, priority=priority)
    board.post("keyed", key="k")
    board.post("delayed", run_at=FAR, key="late")
    returned = board.post("returned", max_attempts=5)
    board.claim(returned, "bob")
    board.checkpoint(returned, "bob", {"at": 7})
    board.abandon(returned, "bob", reason="try again")
    consumed = board.post("consumed")
    board.claim(consumed, "bob")
    board.consume(consumed, "bob", {"pages": 3})
    trashed = board.post("trashed")
    board.claim(trashed, "bob")
    board.trash(trashed, "bob", reason="broken")
    board.schedules.add(Schedule("nightly", Every(days=1, start=FAR), "report"))
    board.save_book(LogBook("notes", uuid="6d0ecd6c-4d5b-4d5e-9d7e-0d4f0a2f8f10"))
    board.pause("second", by="ada", reason="disk full")


def fill_lanes(board: JobBoard) -> None:
    """Put jobs of lanes on a board: one that waited for its slot and has it now, one that waits, one in the trash."""
    board.limits.set(lane="tenant:*", running=1)
    board.limits.set(name="report", running=2)
    for number in range(3):
        board.post("sync", details={"number": number}, lane="tenant:7")
    [first] = board.claim_next("bob", names=["sync"])
    board.consume(first, "bob")
    board.post("later", run_at=FAR, lane="tenant:8")
    broken = board.post("broken", lane="tenant:9")
    board.trash(broken, reason="broken", by="ada")


class Store(Protocol):
    """A server, or a folder, that has one board."""

    uri: str

    def dump(self) -> str:
        """Return all that is in the store."""

    def load(self, text: str) -> None:
        """Put a dump into the store; databases lose what they had."""


class Sqlite:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "jobs.db"
        self.uri = f"sqlite:///{self._path}"

    def dump(self) -> str:
        with closing(sqlite3.connect(self._path)) as file:
            return "".join(f"{line}\n" for line in file.iterdump())

    def load(self, text: str) -> None:
        with closing(sqlite3.connect(self._path)) as file:
            file.executescript(text)


class Postgresql:
    def __init__(self, server: PostgresqlServer) -> None:
        self.uri = server.uri

    def dump(self) -> str:
        command = (programs() / "pg_dump", "--inserts", "--no-owner", "--no-comments", self.uri)
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        # What this version of the server does not know, and comments.
        left_out = ("--", "SET ", "\\")
        return "".join(f"{line}\n" for line in text.splitlines() if line and not line.startswith(left_out))

    def load(self, text: str) -> None:
        empty = "SET client_min_messages = error; DROP SCHEMA public CASCADE; CREATE SCHEMA public;\n"
        command = (programs() / "psql", "-q", "-v", "ON_ERROR_STOP=1", self.uri)
        subprocess.run(command, check=True, input=f"{empty}{text}", text=True, stdout=subprocess.DEVNULL)


class Mariadb:
    def __init__(self, server: MariadbServer) -> None:
        self.uri = server.uri
        self._login = ["--no-defaults", f"--host={HOST}", f"--port={server.port}", "--user=root"]

    def dump(self) -> str:
        command = ["mariadb-dump", *self._login, "--hex-blob", "--compact", "--skip-extended-insert", "jobs"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def load(self, text: str) -> None:
        text = f"DROP DATABASE jobs; CREATE DATABASE jobs; USE jobs;\n{text}"
        subprocess.run(
            ["mariadb", *self._login, "--init-command=SET sql_mode = ''", "jobs"], check=True, input=text, text=True
        )


class Redis:
    def __init__(self, server: RedisServer) -> None:
        self.uri, self._client = server.uri, server.client

    def dump(self) -> str:
        with self._client() as client:
            return _written({key: client.dump(key) for key in sorted(client.keys("*"))})

    def load(self, text: str) -> None:
        with self._client() as client:
            client.flushall()
            for key, value in _read(text):
                client.restore(key, 0, value)


class Etcd:
    def __init__(self, server: EtcdServer) -> None:
        self.uri, self._url = server.uri, f"{server.url}/v3/kv"

    def dump(self) -> str:
        everything = {"key": "AA==", "range_end": "AA=="}
        found = requests.post(f"{self._url}/range", json=everything, timeout=10).json()["kvs"]
        return _written({base64.b64decode(kv["key"]): base64.b64decode(kv.get("value", "")) for kv in found})

    def load(self, text: str) -> None:
        for key, value in _read(text):
            pair = {"key": base64.b64encode(key).decode(), "value": base64.b64encode(value).decode()}
            requests.post(f"{self._url}/put", json=pair, timeout=10).raise_for_status()


class ZooKeeper:
    def __init__(self, server: ZooKeeperServer) -> None:
        self.uri, self._place = server.uri, server.place

    @contextmanager
    def _client(self) -> Iterator[KazooClient]:
        client = KazooClient(self._place)
        client.start()
        yield client
        client.stop()
        client.close()

    def dump(self) -> str:
        found: list[tuple[int, bytes, bytes]] = []

        def walk(path: str) -> None:
            data, stat = client.get(path)
            if stat.ephemeralOwner == 0:
                found.append((stat.czxid, path.encode(), b"%d %b" % (stat.version, data)))
                for child in client.get_children(path):
                    walk(f"{path}/{child}")

        with self._client() as client:
            walk("/jobboard")
        # Jobs are in the order in which their znodes were created. Pauses are those of a version of their znode.
        return _written({path: data for _, path, data in sorted(found)})

    def load(self, text: str) -> None:
        with self._client() as client:
            for path, value in _read(text):
                version, _, data = value.partition(b" ")
                client.create(path.decode(), data)
                for _ in range(int(version)):
                    client.set(path.decode(), data)


def _written(found: Mapping[bytes, bytes]) -> str:
    """Return a line for each key, which stands as it is, and its value."""
    lines = (json.dumps([repr(key), base64.b64encode(found[key]).decode()]) for key in found)
    return "".join(f"{line}\n" for line in lines)


def _read(text: str) -> Iterator[tuple[bytes, bytes]]:
    for line in text.splitlines():
        key, value = json.loads(line)
        yield ast.literal_eval(key), base64.b64decode(value)


_OF_SERVERS: dict[str, tuple[type[Any], Callable[[Any], Store]]] = {
    "postgresql": (PostgresqlServer, Postgresql),
    "mariadb": (MariadbServer, Mariadb),
    "redis": (RedisServer, Redis),
    "etcd": (EtcdServer, Etcd),
    "zookeeper": (ZooKeeperServer, ZooKeeper),
}
STORES = ["sqlite", *_OF_SERVERS]


@contextmanager
def running(name: str, folder: Path) -> Iterator[Store]:
    """An empty store for the block."""
    if name == "sqlite":
        yield Sqlite(folder)
        return
    server, store = _OF_SERVERS[name]
    with server() as started:
        yield store(started)


def file_of(name: str, layout: int) -> Path:
    return Path(__file__).parent / f"layout_{layout}" / f"{name}.dump"


def write(layout: int) -> None:
    """Write a file for each store, by the jobboard that is imported: that of the layout."""
    for name in STORES:
        with TemporaryDirectory() as folder, running(name, Path(folder)) as store:
            for name_of_board, fill_board in ((NAME, fill), (LANES, fill_lanes)):
                with backend(name_of_board, store.uri, retention=1e9) as board:
                    fill_board(board)
            file_of(name, layout).write_text(store.dump())


if __name__ == "__main__":
    write(LAYOUT)
