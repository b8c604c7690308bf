"""How much a store holds for one board, counted past the library."""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import redis
import requests
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from servers.etcd_servers import EtcdServer

from jobboard.backends.memory.registry import store_of
from jobboard.testing import eventually

#: The folders of a ZooKeeper board that are cut into parts; these, up to 64 each, stay for good.
_PARTED = {"jobs", "keys", "blobs", "schedules", "books", "entries"}
#: For how many seconds a member of etcd that has just started may refuse.
_READY_WITHIN = 10.0
_TABLES = ("jobs", "lanes", "limits", "rates", "journal", "pauses", "entities", "books", "book_entries", "schedules")


def of_memory(space: str, board: str) -> dict[str, int]:
    """Count what each collection of the store holds."""
    store = store_of(space, board)
    held = {name: value for name, value in vars(store).items() if hasattr(value, "__len__")}
    return {name: len(value) for name, value in held.items()}


def of_sqlite(path: Path, board: str) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as connection:
        return _rows(connection.cursor(), "?", board)


def of_sql_server(server: Any, board: str) -> dict[str, int]:
    with server.client() as connection, connection.cursor() as cursor:
        return _rows(cursor, "%s", board)


def _rows(cursor: Any, mark: str, board: str) -> dict[str, int]:
    counted = {}
    for table in _TABLES:
        cursor.execute(
            f"SELECT count(*) FROM jobboard_{table} WHERE board IN"
            f" (SELECT id FROM jobboard_boards WHERE name = {mark})",
            (board,),
        )
        (counted[table],) = cursor.fetchone()
    return counted


def of_redis(clients: Iterable[redis.Redis], board: str) -> dict[str, int]:
    """Count the members of every key, the keys whose names tell a job together."""
    counted: dict[str, int] = {}
    for client in clients:
        with client:
            for key in client.scan_iter(match=f"{{jobboard:{board}}}*", count=1000):
                kind = client.type(key).decode()
                size = {"hash": client.hlen, "zset": client.zcard, "set": client.scard}.get(kind, lambda _: 1)(key)
                name = key.decode().partition("}:")[2]
                counted[name] = counted.get(name, 0) + size
    return counted


def of_zookeeper(uri: str, board: str) -> dict[str, int]:
    """Count the znodes in each folder of the board, but those of the present clients and of the log."""
    client = KazooClient(hosts=uri.partition("://")[2])
    client.start(15)
    try:
        root = f"/jobboard/{board}"
        folders = [folder for folder in client.get_children(root) if folder not in {"log", "sessions"}]
        return {folder: _held(client, f"{root}/{folder}", folder in _PARTED) for folder in folders}
    finally:
        client.stop()
        client.close()


def _held(client: KazooClient, path: str, is_parted: bool) -> int:
    parts = client.get_children(path) if is_parted else []
    return _below(client, path) - len(parts)


def _below(client: KazooClient, path: str) -> int:
    try:
        children = client.get_children(path)
    except NoNodeError:
        return 0
    return sum(1 + _below(client, f"{path}/{child}") for child in children)


def of_etcd(server: EtcdServer, board: str) -> dict[str, int]:
    """Count the keys of each folder, but those of the present clients."""
    first = f"/tests/{board}/".encode()
    end = first[:-1] + b"0"
    asked = {"key": base64.b64encode(first).decode(), "range_end": base64.b64encode(end).decode(), "keys_only": True}
    counted: dict[str, int] = {}
    for pair in eventually(lambda: _answer(server, asked), within=_READY_WITHIN).get("kvs", ()):
        folder = base64.b64decode(pair["key"])[len(first) :].split(b"/")[0].decode()
        if folder != "watch":
            counted[folder] = counted.get(folder, 0) + 1
    return counted


def _answer(server: EtcdServer, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a range; nothing while the member has just started, and knows no leader yet."""
    try:
        answer: dict[str, Any] = server.ask("/kv/range", asked)
        return answer
    except requests.HTTPError as error:
        if error.response.status_code != requests.codes.unavailable:
            raise
        return {}
