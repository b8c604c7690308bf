"""RQ: a list of ids, a hash for each job, and a worker that pops one after the other."""

from __future__ import annotations

import sys
from pathlib import Path

import redis
import rq
import tasks
from measuring import System, arguments, measure


class Rq(System):
    version = f"rq {rq.VERSION}"
    has_batches = True

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._connection = redis.Redis.from_url(uri)
        self._queue = rq.Queue("bench", connection=self._connection)

    def clean(self) -> None:
        self._connection.flushall()

    def post(self, count: int) -> None:
        for _ in range(count):
            self._queue.enqueue(tasks.no_op, result_ttl=0)

    def post_many(self, count: int) -> None:
        for _ in range(0, count, 100):
            self._queue.enqueue_many([rq.Queue.prepare_data(tasks.no_op, result_ttl=0) for _ in range(100)])

    def ping(self, at: float) -> None:
        self._queue.enqueue(tasks.ping, at, result_ttl=0)

    def worker(self) -> list[str]:
        program = str(Path(sys.executable).parent / "rq")
        return [program, "worker", "--url", self._uri, "--worker-class", "rq.SimpleWorker", "--quiet", "bench"]


if __name__ == "__main__":
    uri, count, pings = arguments()
    measure(Rq(uri), count, pings)
