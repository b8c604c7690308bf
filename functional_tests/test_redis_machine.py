"""Random histories on Redis, compared with a model."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from redis_harness import RedisHarness
from redis_servers import RedisServer

from jobboard.testing import Harness
from jobboard.testing.machine import BoardMachine


class RedisMachine(BoardMachine):
    #: One server for all histories, each of which has a board of its own on it.
    server: RedisServer

    def open_harness(self) -> Harness:
        return RedisHarness(self.server.uri)


class TestRedisMachine(RedisMachine.TestCase):  # type: ignore[name-defined,misc]
    settings = settings(max_examples=40, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck))

    @classmethod
    def setup_class(cls) -> None:
        RedisMachine.server = RedisServer().start()

    @classmethod
    def teardown_class(cls) -> None:
        RedisMachine.server.stop()
