"""Each kind of server, with what makes clients of it, for suites that start their own."""

from __future__ import annotations

import pytest
from servers.etcd_servers import EtcdServer
from servers.mariadb_servers import MariadbServer
from servers.postgresql_servers import PostgresqlServer
from servers.redis_servers import RedisServer
from servers.zookeeper_servers import ZooKeeperServer

from harnesses.etcd_harness import EtcdHarness
from harnesses.redis_harness import RedisHarness
from harnesses.sql_harness import MysqlHarness, PostgresqlHarness
from harnesses.zookeeper_harness import ZooKeeperHarness

on_every_server = pytest.mark.parametrize(
    ("server_class", "harness_class"),
    [
        pytest.param(EtcdServer, EtcdHarness, id="etcd"),
        pytest.param(MariadbServer, MysqlHarness, id="mariadb"),
        pytest.param(PostgresqlServer, PostgresqlHarness, id="postgresql"),
        pytest.param(RedisServer, RedisHarness, id="redis"),
        pytest.param(ZooKeeperServer, ZooKeeperHarness, id="zookeeper"),
    ],
)
