"""Every kind of server is held to the rules of a job's life."""

from __future__ import annotations

from typing import Any

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.redis_harness import RedisHarness
from harnesses.sql_harness import MysqlHarness, PostgresqlHarness
from harnesses.zookeeper_harness import ZooKeeperHarness
from servers.etcd_servers import EtcdServer
from servers.mariadb_servers import MariadbServer
from servers.postgresql_servers import PostgresqlServer
from servers.redis_servers import RedisServer
from servers.zookeeper_servers import ZooKeeperServer

from jobboard.testing.differential import check_lifecycle

pytestmark = pytest.mark.in_turn(1)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("server_class", "harness_class"),
    [
        pytest.param(EtcdServer, EtcdHarness, id="etcd"),
        pytest.param(MariadbServer, MysqlHarness, id="mariadb"),
        pytest.param(PostgresqlServer, PostgresqlHarness, id="postgresql"),
        pytest.param(RedisServer, RedisHarness, id="redis"),
        pytest.param(ZooKeeperServer, ZooKeeperHarness, id="zookeeper"),
    ],
)
def test_a_server_follows_the_lifecycle(server_class: Any, harness_class: Any) -> None:
    with server_class() as server, harness_class(server.uri) as harness:
        check_lifecycle(harness, 4)
