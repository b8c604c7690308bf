"""The contract through the board for asyncio on Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harnesses.fixtures import a_server
from harnesses.redis_harness import RedisHarness
from servers.redis_servers import RedisServer

from jobboard.testing import Harness
from jobboard.testing.through_aio import AioContract, ThroughAio

server = a_server(RedisServer)


class RedisThroughAio(ThroughAio, RedisHarness):
    pass


class TestRedisThroughAio(AioContract):
    executed_cases = AioContract.all_cases

    @pytest.fixture
    def harness(self, server: RedisServer) -> Iterator[Harness]:
        with RedisThroughAio(server.uri) as harness:
            yield harness
