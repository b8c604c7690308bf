"""Random histories on ZooKeeper, compared with a model."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from zookeeper_harness import ZooKeeperHarness
from zookeeper_servers import ZooKeeperServer

from jobboard.testing import Harness
from jobboard.testing.machine import BoardMachine


class ZooKeeperMachine(BoardMachine):
    #: One server for all histories, each of which has a board of its own on it.
    server: ZooKeeperServer

    def open_harness(self) -> Harness:
        return ZooKeeperHarness(self.server.uri)


class TestZooKeeperMachine(ZooKeeperMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=20, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))

    @classmethod
    def setup_class(cls) -> None:
        ZooKeeperMachine.server = ZooKeeperServer().start()

    @classmethod
    def teardown_class(cls) -> None:
        ZooKeeperMachine.server.stop()
