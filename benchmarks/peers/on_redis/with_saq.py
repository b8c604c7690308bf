"""SAQ: coroutines, woken by blocking reads."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import sys
from pathlib import Path

import redis
from measuring import System, arguments, measure, picked_up, ran
from saq import Queue


async def no_op(_context: object) -> None:
    ran()


async def ping(_context: object, *, at: float) -> None:
    picked_up(at)


queue = Queue.from_url(os.environ.get("BENCH_URI") or sys.argv[1], name="bench")
settings = {"queue": queue, "functions": [no_op, ping], "concurrency": 64}


class Saq(System):
    version = f"saq {importlib.metadata.version('saq')}"

    def __init__(self, uri: str) -> None:
        self._redis = redis.Redis.from_url(uri)
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(queue.connect())

    def clean(self) -> None:
        self._redis.flushall()

    def post(self, count: int) -> None:
        async def post() -> None:
            for _ in range(count):
                await queue.enqueue("no_op", ttl=-1)

        self._loop.run_until_complete(post())

    def ping(self, at: float) -> None:
        self._loop.run_until_complete(queue.enqueue("ping", at=at, ttl=-1))

    def worker(self) -> list[str]:
        return [str(Path(sys.executable).parent / "saq"), "with_saq.settings", "--quiet"]


if __name__ == "__main__":
    uri, count, pings = arguments()
    os.environ["BENCH_URI"] = uri
    measure(Saq(uri), count, pings)
