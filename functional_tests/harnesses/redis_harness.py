"""The harnesses of the Redis boards: one host, a Cluster, and a primary behind a Sentinel."""

from __future__ import annotations

from harnesses.server_harness import GARBAGE, ServerHarness
from jobboard.backends.redis import RedisBackend, RedisClusterBackend, RedisSentinelBackend
from jobboard.backends.redis.boards import layout_key
from jobboard.board import JobBoard


class RedisHarness(ServerHarness):
    backend_class = RedisBackend

    def corrupt(self, board: JobBoard, uuid: str) -> None:
        """Every class finds the right server by itself, so its own connection is used."""
        backend = self.backend(board.name)
        assert isinstance(backend, RedisBackend)
        backend.open(5.0)
        written = backend.client.send([("HSET", f"{backend.key}:listings", uuid, GARBAGE)])
        backend.close()
        assert written == [0]

    def write_layout(self, board: JobBoard, number: str) -> str:
        backend = board._backend
        assert isinstance(backend, RedisBackend)
        [before] = backend.client.send([("SET", layout_key(backend.key), number, "GET")])
        return str(before.decode())


class ClusterHarness(RedisHarness):
    backend_class = RedisClusterBackend


class SentinelHarness(RedisHarness):
    backend_class = RedisSentinelBackend
