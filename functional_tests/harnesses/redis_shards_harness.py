"""The harness of boards of several shards on one Redis server, or on a Cluster."""

from __future__ import annotations

from typing import Any, ClassVar

from harnesses.server_harness import GARBAGE, ServerHarness
from jobboard.backends.address import Address
from jobboard.backends.base import Backend, Capabilities
from jobboard.backends.loading import make_backend
from jobboard.backends.redis import RedisBackend, RedisClusterBackend
from jobboard.backends.redis.boards import layout_key
from jobboard.backends.shards import ShardsBackend
from jobboard.board import JobBoard
from jobboard.testing.sharding import take_turns


class RedisShardsHarness(ServerHarness):
    """Four shards on one server."""

    backend_class = ShardsBackend
    store: ClassVar[type[RedisBackend]] = RedisBackend
    shards: ClassVar[int] = 4

    def uri(self) -> str:
        return f"{super().uri()}?shards={self.shards}"

    @property
    def capabilities(self) -> Capabilities:
        return self.backend("of-nobody").capabilities

    def backend(self, name: str) -> Backend:
        address = Address.parse(super().uri())
        options: dict[str, Any] = {**self.backend_options, "shards": self.shards}
        backend = make_backend(self.store, name, address, options)
        assert isinstance(backend, ShardsBackend)
        return take_turns(backend, self.together)

    def corrupt(self, board: JobBoard, uuid: str) -> None:
        for shard in self._shards_of(board):
            if shard.jobs.read([uuid]) != [None]:
                assert shard.client.send([("HSET", f"{shard.key}:listings", uuid, GARBAGE)]) == [0]
                return
        raise AssertionError("no shard has this job")

    def write_layout(self, board: JobBoard, number: str) -> str:
        shard = self._shards_of(board)[1]
        [before] = shard.client.send([("SET", layout_key(shard.key), number, "GET")])
        return str(before.decode())

    def _shards_of(self, board: JobBoard) -> list[RedisBackend]:
        backend = getattr(board._backend, "inner", board._backend)
        return list(backend.fleet.shards)


class ClusterShardsHarness(RedisShardsHarness):
    """Twelve shards on a Cluster."""

    store = RedisClusterBackend
    shards = 12
