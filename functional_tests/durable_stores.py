"""The stores, set up so that nothing is lost when their servers are killed, and by which file's servers."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Store:
    """A running store; ``restart`` kills its server and starts it again, where it has one."""

    name: str
    uri: str
    restart: Callable[[], None] | None


#: How each kind of server is made; those whose file is not there yet are left out.
_SERVERS: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "redis": ("redis_servers", "RedisServer", ({"appendonly": "yes", "appendfsync": "always"},)),
    "etcd": ("etcd_servers", "EtcdServer", ()),
    "postgresql": ("postgresql_servers", "PostgresqlServer", ()),
    "mariadb": ("mariadb_servers", "MariadbServer", ({"innodb-flush-log-at-trx-commit": "2"},)),
    "zookeeper": ("zookeeper_servers", "ZooKeeperServer", ()),
}
_HERE = Path(__file__).parent

STORES = ["sqlite", *(name for name, (file, _, _) in _SERVERS.items() if (_HERE / f"{file}.py").exists())]


@contextlib.contextmanager
def running(name: str, folder: Path) -> Iterator[Store]:
    """Start a store, and stop it at the end."""
    if name == "sqlite":
        yield Store(name, f"sqlite:///{folder}/jobs.db", None)
        return
    file, kind, arguments = _SERVERS[name]
    with getattr(importlib.import_module(file), kind)(*arguments) as server:

        def restart() -> None:
            server.kill()
            server.start()

        yield Store(name, server.uri, restart)
