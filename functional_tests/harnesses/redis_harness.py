"""The harnesses of the Redis boards: one host, a Cluster, and a primary behind a Sentinel."""

from __future__ import annotations

from jobboard.backends.redis import RedisBackend, RedisClusterBackend, RedisSentinelBackend
from jobboard.board import JobBoard
from jobboard.testing import Harness

GARBAGE = b"\xc1 no posting"


class RedisHarness(Harness):
    """A harness onto a server that runs already."""

    backend_class = RedisBackend

    def __init__(self, uri: str) -> None:
        super().__init__()
        self._uri = uri

    def uri(self) -> str:
        return self._uri

    def corrupt(self, board: JobBoard, uuid: str) -> None:
        """Every class finds the right server by itself, so its own connection is used."""
        backend = self.backend(board.name)
        assert isinstance(backend, RedisBackend)
        backend.open(5.0)
        written = backend.client.send([("HSET", f"{backend.key}:listings", uuid, GARBAGE)])
        backend.close()
        assert written == [0]


class ClusterHarness(RedisHarness):
    backend_class = RedisClusterBackend


class SentinelHarness(RedisHarness):
    backend_class = RedisSentinelBackend
