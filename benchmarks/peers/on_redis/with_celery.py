"""Celery on its Redis broker."""

from __future__ import annotations

import os
import sys

import celery
import redis
from measuring import System, arguments, measure, picked_up, ran

app = celery.Celery("with_celery", broker=os.environ.get("BENCH_URI"))
app.conf.update(
    task_ignore_result=True, worker_prefetch_multiplier=64, broker_connection_retry_on_startup=True,
    task_default_queue="bench", worker_send_task_events=False, worker_hijack_root_logger=False,
)  # fmt: skip


@app.task(name="no_op")
def no_op() -> None:
    ran()


@app.task(name="ping")
def ping(at: float) -> None:
    picked_up(at)


class Celery(System):
    version = f"celery {celery.__version__}"

    def __init__(self, uri: str) -> None:
        self._redis = redis.Redis.from_url(uri)

    def clean(self) -> None:
        self._redis.flushall()

    def post(self, count: int) -> None:
        for _ in range(count):
            no_op.delay()

    def ping(self, at: float) -> None:
        ping.delay(at)

    def worker(self) -> list[str]:
        options = ["--pool", "solo", "--loglevel", "ERROR", "--without-gossip", "--without-mingle"]
        return [sys.executable, "-m", "celery", "-A", "with_celery", "worker", *options, "--without-heartbeat"]


if __name__ == "__main__":
    uri, count, pings = arguments()
    os.environ["BENCH_URI"] = app.conf.broker_url = uri
    measure(Celery(uri), count, pings)
