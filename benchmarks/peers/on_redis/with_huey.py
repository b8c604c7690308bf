"""Huey with blocking reads and no results."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from pathlib import Path

from huey import RedisHuey
from measuring import System, arguments, measure, picked_up, ran

huey = RedisHuey("bench", url=os.environ.get("BENCH_URI") or sys.argv[1], results=False, blocking=True)


@huey.task()
def no_op() -> None:
    ran()


@huey.task()
def ping(at: float) -> None:
    picked_up(at)


class Huey(System):
    version = f"huey {importlib.metadata.version('huey')}"

    def clean(self) -> None:
        huey.storage.conn.flushall()

    def post(self, count: int) -> None:
        for _ in range(count):
            no_op()

    def ping(self, at: float) -> None:
        ping(at)

    def worker(self) -> list[str]:
        program = str(Path(sys.executable).parent / "huey_consumer")
        return [program, "with_huey.huey", "--workers", "1", "--quiet", "--no-periodic"]


if __name__ == "__main__":
    uri, count, pings = arguments()
    os.environ["BENCH_URI"] = uri
    # A task is found by its module's name, which must be the same here and in the worker.
    import with_huey

    no_op, ping, huey = with_huey.no_op, with_huey.ping, with_huey.huey
    measure(Huey(), count, pings)
