"""The contract on etcd: on one server, and on a cluster of three."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harnesses.deployments import FurtherContract
from harnesses.etcd_harness import EtcdHarness
from harnesses.fixtures import a_server
from servers.etcd_servers import EtcdCluster, EtcdServer

from jobboard.testing import CONTRACT_CASES, Contract, Harness

single = a_server(EtcdServer)
cluster = a_server(EtcdCluster)


class TestEtcd(Contract):
    executed_cases = CONTRACT_CASES

    @pytest.fixture
    def harness(self, single: EtcdServer) -> Iterator[Harness]:
        with EtcdHarness(single.uri) as harness:
            yield harness


@pytest.mark.turn_of("cluster of etcd")
class TestEtcdCluster(FurtherContract):
    executed_cases = FurtherContract.all_cases

    @pytest.fixture
    def harness(self, cluster: EtcdCluster) -> Iterator[Harness]:
        with EtcdHarness(cluster.uri) as harness:
            yield harness
