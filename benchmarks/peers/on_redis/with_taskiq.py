"""taskiq with a list as its queue: coroutines of one process, results not kept."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import sys
from pathlib import Path

import redis
from measuring import System, arguments, measure, picked_up, ran
from taskiq_redis import ListQueueBroker

_PREFETCH = 64

broker = ListQueueBroker(os.environ.get("BENCH_URI") or sys.argv[1])


@broker.task
async def no_op() -> None:
    ran()


@broker.task
async def ping(at: float) -> None:
    picked_up(at)


class Taskiq(System):
    version = f"taskiq {importlib.metadata.version('taskiq')}"

    def __init__(self, uri: str) -> None:
        self._redis = redis.Redis.from_url(uri)
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(broker.startup())

    def clean(self) -> None:
        self._redis.flushall()

    def post(self, count: int) -> None:
        async def post() -> None:
            for _ in range(count):
                await no_op.kiq()

        self._loop.run_until_complete(post())

    def ping(self, at: float) -> None:
        self._loop.run_until_complete(ping.kiq(at))

    def worker(self) -> list[str]:
        program = str(Path(sys.executable).parent / "taskiq")
        options = ["--workers", "1", "--max-prefetch", str(_PREFETCH), "--log-level", "ERROR"]
        return [program, "worker", "with_taskiq:broker", *options]


if __name__ == "__main__":
    uri, count, pings = arguments()
    os.environ["BENCH_URI"] = uri
    # A task is found by its module's name, which must be the same here and in the worker.
    import with_taskiq

    no_op, ping, broker = with_taskiq.no_op, with_taskiq.ping, with_taskiq.broker
    measure(Taskiq(uri), count, pings)
