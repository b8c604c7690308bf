"""Random histories on every kind of server, compared with a model."""

from __future__ import annotations

from typing import Any

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.redis_harness import RedisHarness
from harnesses.sql_harness import MysqlHarness, PostgresqlHarness
from harnesses.zookeeper_harness import ZooKeeperHarness
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from servers.etcd_servers import EtcdServer
from servers.mariadb_servers import MariadbServer
from servers.postgresql_servers import PostgresqlServer
from servers.redis_servers import RedisServer
from servers.zookeeper_servers import ZooKeeperServer

from jobboard.testing import Harness
from jobboard.testing.machine import BoardMachine

SETTINGS = settings(max_examples=15, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))

pytestmark = pytest.mark.in_turn(2)


@pytest.mark.timeout(400)
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
def test_a_server_does_what_the_model_does(server_class: Any, harness_class: Any) -> None:
    with server_class() as server:

        class Machine(BoardMachine):
            """Each history has a board of its own on the server."""

            def open_harness(self) -> Harness:
                harness: Harness = harness_class(server.uri)
                return harness

        run_state_machine_as_test(Machine, settings=SETTINGS)
