"""Dramatiq on its Redis broker."""

from __future__ import annotations

import importlib.metadata
import os
import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from measuring import System, arguments, measure, picked_up, ran

broker = RedisBroker(url=os.environ.get("BENCH_URI") or sys.argv[1])
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="bench")
def no_op() -> None:
    ran()


@dramatiq.actor(queue_name="bench")
def ping(at: float) -> None:
    picked_up(at)


class Dramatiq(System):
    version = f"dramatiq {importlib.metadata.version('dramatiq')}"

    def clean(self) -> None:
        broker.client.flushall()

    def post(self, count: int) -> None:
        for _ in range(count):
            no_op.send()

    def ping(self, at: float) -> None:
        ping.send(at)

    def worker(self) -> list[str]:
        return [sys.executable, "-m", "dramatiq", "with_dramatiq", "--processes", "1", "--threads", "8"]


if __name__ == "__main__":
    uri, count, pings = arguments()
    os.environ["BENCH_URI"] = uri
    measure(Dramatiq(), count, pings)
