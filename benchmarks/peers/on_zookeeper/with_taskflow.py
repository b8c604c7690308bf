"""TaskFlow's ZooKeeper job board, by a loop over its jobs; also what a claim costs with few and with many jobs."""

from __future__ import annotations

import importlib.metadata
import sys
from typing import Any

from backlogs import measure_backlog
from measuring import System, arguments, measure, picked_up, ran
from taskflow.jobs.backends.impl_zookeeper import ZookeeperJobBoard

_WHO = "bench"


def board_on(uri: str, path: str) -> Any:
    board = ZookeeperJobBoard("bench", {"hosts": uri.removeprefix("zookeeper://"), "path": path})
    board.connect()
    return board


class TaskFlow(System):
    version = f"taskflow {importlib.metadata.version('taskflow')}"

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._generation = 0
        self.board: Any = None
        self._job: Any = None

    def clean(self) -> None:
        if self.board is not None:
            self.board.close()
        self._generation += 1
        self._path = f"/taskflow/jobs-{self._generation}"
        self.board = board_on(self._uri, self._path)

    def post(self, count: int) -> None:
        for _ in range(count):
            self.board.post("no-op")

    def ping(self, at: float) -> None:
        self.board.post("ping", details={"at": at})

    def worker(self) -> list[str]:
        return [sys.executable, __file__, "work", self._uri, self._path]

    def claim(self) -> None:
        self._job = next(iter(self.board.iterjobs(only_unclaimed=True, ensure_fresh=True)))
        self.board.claim(self._job, _WHO)

    def give_back(self) -> None:
        self.board.abandon(self._job, _WHO)


def work(uri: str, path: str) -> None:
    board = board_on(uri, path)
    while True:
        # One look at the board serves for all the jobs that it finds.
        for job in board.wait(timeout=60):
            if job.name == "ping":
                picked_up(job.details["at"])
            board.claim(job, _WHO)
            if job.name != "ping":
                ran()
            board.consume(job, _WHO)


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(*sys.argv[2:])
    else:
        uri, count, pings = arguments()
        taskflow = TaskFlow(uri)
        measure(taskflow, count, pings)
        measure_backlog(taskflow, taskflow.claim, taskflow.give_back)
