"""arq: coroutines, found by polling a sorted set."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import sys
from pathlib import Path

import redis
from arq import create_pool
from arq.connections import RedisSettings
from measuring import System, arguments, measure, picked_up, ran


async def no_op(_context: object) -> None:
    ran()


async def ping(_context: object, at: float) -> None:
    picked_up(at)


class WorkerSettings:
    functions = [no_op, ping]
    redis_settings = RedisSettings.from_dsn(os.environ.get("BENCH_URI") or sys.argv[1])
    max_jobs = 64
    poll_delay = 0.001
    keep_result = 0


class Arq(System):
    version = f"arq {importlib.metadata.version('arq')}"

    def __init__(self, uri: str) -> None:
        self._redis = redis.Redis.from_url(uri)
        self._loop = asyncio.new_event_loop()
        self._pool = self._loop.run_until_complete(create_pool(RedisSettings.from_dsn(uri)))

    def clean(self) -> None:
        self._redis.flushall()

    def post(self, count: int) -> None:
        async def post() -> None:
            for _ in range(count):
                await self._pool.enqueue_job("no_op")

        self._loop.run_until_complete(post())

    def ping(self, at: float) -> None:
        self._loop.run_until_complete(self._pool.enqueue_job("ping", at))

    def worker(self) -> list[str]:
        return [str(Path(sys.executable).parent / "arq"), "with_arq.WorkerSettings"]


if __name__ == "__main__":
    uri, count, pings = arguments()
    os.environ["BENCH_URI"] = uri
    measure(Arq(uri), count, pings)
