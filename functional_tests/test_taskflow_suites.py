"""TaskFlow's own tests of job boards, conductors and persistence, from the installed package, on every store.

All of its conductors, and ours, run on memory; its threaded one and ours on the stores that it has boards for; our
threaded one on all.
"""

from __future__ import annotations

import tempfile
from typing import Self

import pytest
from harnesses.taskflow_suites import SCENARIOS, suite
from servers.etcd_servers import EtcdServer
from servers.mariadb_servers import MariadbServer
from servers.postgresql_servers import PostgresqlServer
from servers.redis_servers import RedisServer
from servers.zookeeper_servers import ZooKeeperServer

pytestmark = pytest.mark.turn_of("suites of TaskFlow")

#: Of five, those that run where TaskFlow has a board, and the one that runs everywhere.
THREADED = ("nonblocking_many_thread", "jobboard_nonblocking")
OURS = ("jobboard_nonblocking",)
OTHERS = tuple(scenario for scenario in SCENARIOS if scenario not in THREADED)


class Memory:
    uri = "memory://"

    def start(self) -> Self:
        return self

    def stop(self) -> None:
        pass


class Sqlite(Memory):
    def start(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        self.uri = f"sqlite:///{self._folder.name}/board.db"
        return self

    def stop(self) -> None:
        self._folder.cleanup()


class TestMemory(suite(Memory, THREADED)):  # type: ignore[misc]
    pass


class TestMemoryOtherConductors(suite(Memory, OTHERS)):  # type: ignore[misc]
    pass


class TestSqlite(suite(Sqlite, OURS)):  # type: ignore[misc]
    pass


class TestRedis(suite(RedisServer, THREADED)):  # type: ignore[misc]
    pass


class TestZooKeeper(suite(ZooKeeperServer, THREADED, sessions=True)):  # type: ignore[misc]
    pass


class TestEtcd(suite(EtcdServer, THREADED)):  # type: ignore[misc]
    pass


class TestPostgresql(suite(PostgresqlServer, OURS)):  # type: ignore[misc]
    pass


class TestMariadb(suite(MariadbServer, OURS)):  # type: ignore[misc]
    pass
