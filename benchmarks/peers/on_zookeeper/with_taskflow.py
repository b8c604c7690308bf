"""TaskFlow's ZooKeeper job board, by a loop over its jobs; also what a claim costs with few and with many jobs."""

from __future__ import annotations

import sys
from typing import Any

from backlogs import measure_backlog
from measuring import main
from taskflow.jobs.backends.impl_zookeeper import ZookeeperJobBoard
from taskflows import TaskFlow, work_through


def board_on(uri: str, path: str) -> Any:
    board = ZookeeperJobBoard("bench", {"hosts": uri.removeprefix("zookeeper://"), "path": path})
    board.connect()
    return board


class OnZooKeeper(TaskFlow):
    _generation = 0

    def clean(self) -> None:
        if self.board is not None:
            self.board.close()
        self._generation += 1
        self._path = f"/taskflow/jobs-{self._generation}"
        self.board = board_on(self._uri, self._path)

    def worker(self) -> list[str]:
        return [sys.executable, __file__, "work", self._uri, self._path]


def work(uri: str, path: str) -> None:
    board = board_on(uri, path)
    while True:
        work_through(board, board.wait(timeout=60))


if __name__ == "__main__":
    main(OnZooKeeper, work, measure_backlog)
