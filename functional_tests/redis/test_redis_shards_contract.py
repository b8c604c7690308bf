"""A part of the contract on boards of shards: four on one Redis server, twelve on a Cluster of three nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harnesses.deployments import FurtherContract
from harnesses.fixtures import a_server
from harnesses.redis_shards_harness import ClusterShardsHarness, RedisShardsHarness
from servers.redis_rights import USER, allow_least_rights
from servers.redis_servers import RedisCluster, RedisServer

from jobboard.testing import Harness
from jobboard.testing.counting import count_cases


@pytest.fixture(scope="module")
def single() -> Iterator[RedisServer]:
    """Used by somebody who has no more rights than the documentation says."""
    with RedisServer() as server:
        allow_least_rights(server)
        yield server


cluster = a_server(RedisCluster)


#: The whole contract runs over shards of the embedded stores (tests/shards).
CASES = FurtherContract.all_cases - count_cases(FurtherContract, sharded=False)


@pytest.mark.turn_of("shards on Redis")
class TestRedisShards(FurtherContract):
    executed_cases = CASES

    @pytest.fixture
    def harness(self, single: RedisServer) -> Iterator[Harness]:
        with RedisShardsHarness(single.uri_of(*USER)) as harness:
            yield harness


@pytest.mark.turn_of("shards on Redis Cluster")
class TestClusterShards(FurtherContract):
    executed_cases = CASES

    @pytest.fixture
    def harness(self, cluster: RedisCluster) -> Iterator[Harness]:
        with ClusterShardsHarness(cluster.uri) as harness:
            yield harness
