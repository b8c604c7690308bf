"""Random histories on every kind of server, compared with a model."""

from __future__ import annotations

from typing import Any

from harnesses.etcd_harness import EtcdHarness
from harnesses.redis_harness import RedisHarness
from harnesses.sql_harness import MysqlHarness, PostgresqlHarness
from harnesses.zookeeper_harness import ZooKeeperHarness
from hypothesis import HealthCheck, settings
from servers.etcd_servers import EtcdServer
from servers.mariadb_servers import MariadbServer
from servers.postgresql_servers import PostgresqlServer
from servers.redis_servers import RedisServer
from servers.zookeeper_servers import ZooKeeperServer

from jobboard.testing import Harness
from jobboard.testing.machine import BoardMachine


def machine_test(server_class: Any, harness_class: Any) -> type:
    """Return a test with one server for all histories, each of which has a board of its own on it."""

    class Machine(BoardMachine):
        server: Any

        def open_harness(self) -> Harness:
            harness: Harness = harness_class(self.server.uri)
            return harness

    class Test(Machine.TestCase):  # type: ignore[name-defined,misc]
        settings = settings(
            max_examples=15, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        )

        @classmethod
        def setup_class(cls) -> None:
            # Not before: a process that only collects this test would never forget the server's folder and port.
            Machine.server = server_class().start()

        @classmethod
        def teardown_class(cls) -> None:
            Machine.server.stop()

    return Test


TestEtcd = machine_test(EtcdServer, EtcdHarness)
TestMariadb = machine_test(MariadbServer, MysqlHarness)
TestPostgresql = machine_test(PostgresqlServer, PostgresqlHarness)
TestRedis = machine_test(RedisServer, RedisHarness)
TestZooKeeper = machine_test(ZooKeeperServer, ZooKeeperHarness)
