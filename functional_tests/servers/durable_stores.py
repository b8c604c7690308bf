"""The stores, set up so that nothing is lost when their servers are killed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servers.etcd_servers import EtcdServer
from servers.mariadb_servers import MariadbServer
from servers.postgresql_servers import PostgresqlServer
from servers.redis_servers import RedisServer
from servers.zookeeper_servers import ZooKeeperServer


@dataclass(frozen=True)
class Store:
    """A running store; ``restart`` kills its server and starts it again, where it has one."""

    name: str
    uri: str
    restart: Callable[[], None] | None


#: How each kind of server is made.
_SERVERS: dict[str, Callable[[], Any]] = {
    "redis": lambda: RedisServer({"appendonly": "yes", "appendfsync": "always"}),
    "etcd": EtcdServer,
    "postgresql": PostgresqlServer,
    "mariadb": lambda: MariadbServer({"innodb-flush-log-at-trx-commit": "2"}),
    "zookeeper": ZooKeeperServer,
}

STORES = ["sqlite", *_SERVERS]


def server_of(name: str) -> Any:
    """Return a server that is not started, of any store but SQLite."""
    return _SERVERS[name]()


@contextlib.contextmanager
def running(name: str, folder: Path) -> Iterator[Store]:
    """Start a store, and stop it at the end."""
    if name == "sqlite":
        yield Store(name, f"sqlite:///{folder}/jobs.db", None)
        return
    with _SERVERS[name]() as server:

        def restart() -> None:
            server.kill()
            server.start()

        yield Store(name, server.uri, restart)
