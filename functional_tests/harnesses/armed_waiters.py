"""The waiters on a Redis board that have asked a post to claim its job for them."""

from __future__ import annotations

from typing import Any

import msgpack
from servers.redis_servers import RedisServer

from jobboard import JobBoard
from jobboard.testing import eventually


def requests_of(server: RedisServer, board: JobBoard) -> list[Any]:
    """Return the claim requests of those who are armed."""
    with server.client(protocol=2) as client:
        armed: dict[bytes, bytes] = client.hgetall(f"{{jobboard:{board.name}}}:waiters")
    unpacked = []
    for value in armed.values():
        unpacker = msgpack.Unpacker()
        unpacker.feed(value)
        unpacked.append(list(unpacker)[1])
    return unpacked


def armed(server: RedisServer, board: JobBoard, count: int = 1) -> None:
    """Wait until this many are armed with claim requests."""
    eventually(lambda: len([request for request in requests_of(server, board) if request]) == count)
