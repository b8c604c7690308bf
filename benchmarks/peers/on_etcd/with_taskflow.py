"""TaskFlow's etcd job board, by a loop over ``iterjobs``; also what a claim costs with few and with many jobs."""

from __future__ import annotations

import importlib.metadata
import os
import statistics
import sys
import time
from typing import Any

from etcd3gw.client import Etcd3Client
from measuring import System, arguments, measure, picked_up, ran, tell
from taskflow.jobs.backends.impl_etcd import EtcdJobBoard

_WHO = "bench"
_EXPIRY = 30
_BACKLOGS = (10, 100, 1000)


def place_of(uri: str) -> dict[str, Any]:
    host, _, port = uri.removeprefix("etcd://").partition(":")
    return {"host": host, "port": int(port)}


def board_on(uri: str) -> Any:
    board = EtcdJobBoard("bench", place_of(uri))
    board.connect()
    return board


class TaskFlow(System):
    version = f"taskflow {importlib.metadata.version('taskflow')}"

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._client = Etcd3Client(**place_of(uri))
        self.board = board_on(uri)

    def clean(self) -> None:
        self.board.close()
        self._client.delete_prefix("/taskflow")
        self.board = board_on(self._uri)

    def post(self, count: int) -> None:
        for _ in range(count):
            self.board.post("no-op")

    def ping(self, at: float) -> None:
        self.board.post("ping", details={"at": at})

    def worker(self) -> list[str]:
        return [sys.executable, __file__, "work", self._uri]


def work(uri: str) -> None:
    board = board_on(uri)
    # A wait on a new client finds nothing that was there before it, so it has to look once by itself.
    jobs = board.iterjobs(ensure_fresh=True)
    while True:
        for job in jobs:
            if job.name == "ping":
                picked_up(job.details["at"])
            board.claim(job, _WHO, expiry=_EXPIRY)
            if job.name != "ping":
                ran()
            board.consume(job, _WHO)
        jobs = board.wait()


def measure_backlog(system: TaskFlow) -> None:
    """Find and claim the next job, with that many waiting; given back each time."""
    for backlog in _BACKLOGS:
        system.clean()
        system.post(backlog)
        times = []
        for _ in range(20):
            begin = time.perf_counter()
            job = next(iter(system.board.iterjobs(only_unclaimed=True, ensure_fresh=True)))
            system.board.claim(job, _WHO, expiry=_EXPIRY)
            times.append(time.perf_counter() - begin)
            system.board.abandon(job, _WHO)
        tell(f"find and claim with {backlog:,} waiting", statistics.median(times) * 1e3, "ms")


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(sys.argv[2])
    else:
        uri, count, pings = arguments()
        taskflow = TaskFlow(uri)
        measure(taskflow, count, pings)
        measure_backlog(taskflow)
        sys.stdout.flush()
        # Its watcher threads outlive a close.
        os._exit(0)
