"""The contract's cases that a client library can change, on every server; ``tox -e least`` runs it on the oldest ones.

Every operation of a backend is in it, with lost replies, outages, waiting, events and forked processes. Jobboard's own
code alone decides the rest: arguments, fences, keys, order, races, formats. The file is named so that pytest runs it
only on request; the whole contract runs on the newest libraries.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harnesses.etcd_harness import EtcdHarness
from harnesses.fixtures import a_server
from harnesses.redis_harness import RedisHarness
from harnesses.sql_harness import MysqlHarness, PostgresqlHarness
from harnesses.zookeeper_harness import ZooKeeperHarness
from servers.etcd_servers import EtcdServer
from servers.mariadb_servers import MariadbServer
from servers.postgresql_servers import PostgresqlServer
from servers.redis_servers import RedisServer
from servers.zookeeper_servers import ZooKeeperServer

from jobboard.testing import Harness
from jobboard.testing.contract import Counted
from jobboard.testing.contract.all_schedules import AllSchedulesCases
from jobboard.testing.contract.corruption import CorruptionCases
from jobboard.testing.contract.events import EventCases
from jobboard.testing.contract.iterating import IteratingCases
from jobboard.testing.contract.operators import AuditCases
from jobboard.testing.contract.outages import OutageCases
from jobboard.testing.contract.processes import ProcessCases
from jobboard.testing.contract.retries import RetryCases
from jobboard.testing.contract.waiting import WaitingCases
from jobboard.testing.counting import count_cases


class OldestContract(
    AllSchedulesCases, AuditCases, CorruptionCases, EventCases, IteratingCases, OutageCases, ProcessCases, RetryCases,
    WaitingCases, Counted,
):  # fmt: skip
    """Derive a class ``Test...`` of it beside a fixture ``harness``."""


OldestContract.all_cases = OldestContract.executed_cases = count_cases(OldestContract)

etcd = a_server(EtcdServer)
mariadb = a_server(MariadbServer)
postgresql = a_server(PostgresqlServer)
redis = a_server(RedisServer)
zookeeper = a_server(ZooKeeperServer)


@pytest.mark.turn_of("oldest libraries of etcd")
class TestEtcd(OldestContract):
    @pytest.fixture
    def harness(self, etcd: EtcdServer) -> Iterator[Harness]:
        with EtcdHarness(etcd.uri) as harness:
            yield harness


@pytest.mark.turn_of("oldest libraries of MariaDB")
class TestMariadb(OldestContract):
    @pytest.fixture
    def harness(self, mariadb: MariadbServer) -> Iterator[Harness]:
        with MysqlHarness(mariadb.uri) as harness:
            yield harness


@pytest.mark.turn_of("oldest libraries of PostgreSQL")
class TestPostgresql(OldestContract):
    @pytest.fixture
    def harness(self, postgresql: PostgresqlServer) -> Iterator[Harness]:
        with PostgresqlHarness(postgresql.uri) as harness:
            yield harness


class TestRedis(OldestContract):
    @pytest.fixture
    def harness(self, redis: RedisServer) -> Iterator[Harness]:
        with RedisHarness(redis.uri) as harness:
            yield harness


@pytest.mark.turn_of("oldest libraries of ZooKeeper")
class TestZooKeeper(OldestContract):
    @pytest.fixture
    def harness(self, zookeeper: ZooKeeperServer) -> Iterator[Harness]:
        with ZooKeeperHarness(zookeeper.uri) as harness:
            yield harness
