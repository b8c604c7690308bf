"""The contract on Redis: on one host, on a Cluster of three primaries, and behind a Sentinel."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harnesses.deployments import FurtherContract, OtherWayContract
from harnesses.fixtures import a_server
from harnesses.redis_harness import ClusterHarness, RedisHarness, SentinelHarness
from servers.redis_rights import USER, allow_least_rights
from servers.redis_servers import RedisCluster, RedisSentinel, RedisServer

from jobboard.testing import CONTRACT_CASES, Contract, Harness


@pytest.fixture(scope="module")
def single() -> Iterator[RedisServer]:
    """Used by somebody who has no more rights than the documentation says."""
    with RedisServer() as server:
        allow_least_rights(server)
        yield server


cluster = a_server(RedisCluster)
sentinel = a_server(RedisSentinel)


class TestRedis(Contract):
    executed_cases = CONTRACT_CASES

    @pytest.fixture
    def harness(self, single: RedisServer) -> Iterator[Harness]:
        with RedisHarness(single.uri_of(*USER)) as harness:
            yield harness


@pytest.mark.turn_of("cluster of Redis")
class TestRedisCluster(FurtherContract):
    executed_cases = FurtherContract.all_cases

    @pytest.fixture
    def harness(self, cluster: RedisCluster) -> Iterator[Harness]:
        with ClusterHarness(cluster.uri) as harness:
            yield harness


@pytest.mark.turn_of("Sentinel")
class TestRedisSentinel(OtherWayContract):
    executed_cases = OtherWayContract.all_cases

    @pytest.fixture
    def harness(self, sentinel: RedisSentinel) -> Iterator[Harness]:
        with SentinelHarness(sentinel.uri) as harness:
            yield harness
