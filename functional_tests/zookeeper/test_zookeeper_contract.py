"""The contract on ZooKeeper: on a single server, and on an ensemble of three."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harnesses.deployments import FurtherContract
from harnesses.fixtures import a_server
from harnesses.zookeeper_harness import ZooKeeperHarness
from servers.zookeeper_servers import ZooKeeperEnsemble, ZooKeeperServer

from jobboard.testing import CONTRACT_CASES, Contract, Harness

single = a_server(ZooKeeperServer)
ensemble = a_server(ZooKeeperEnsemble)


class TestZooKeeper(Contract):
    executed_cases = CONTRACT_CASES

    @pytest.fixture
    def harness(self, single: ZooKeeperServer) -> Iterator[Harness]:
        with ZooKeeperHarness(single.uri) as harness:
            yield harness


@pytest.mark.turn_of("ensemble of ZooKeeper")
class TestZooKeeperEnsemble(FurtherContract):
    executed_cases = FurtherContract.all_cases

    @pytest.fixture
    def harness(self, ensemble: ZooKeeperEnsemble) -> Iterator[Harness]:
        # The leader may show a change a moment later than the follower that has answered for it: see the docs.
        followers = ",".join(node.place for node in ensemble.followers())
        with ZooKeeperHarness(f"zookeeper://{followers}") as harness:
            yield harness
