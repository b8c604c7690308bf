"""TaskFlow's Redis job board, by a loop over its jobs; also what a claim costs with few and with many jobs."""

from __future__ import annotations

import sys
from typing import Any

import redis
from backlogs import measure_backlog
from measuring import main
from taskflow.jobs.backends.impl_redis import RedisJobBoard
from taskflows import TaskFlow, work_through


def board_on(uri: str) -> Any:
    host, _, port = uri.removeprefix("redis://").partition("/")[0].partition(":")
    board = RedisJobBoard("bench", {"host": host, "port": int(port)})
    board.connect()
    return board


class OnRedis(TaskFlow):
    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._redis = redis.Redis.from_url(uri)
        self.board = board_on(uri)

    def clean(self) -> None:
        self._redis.flushall()

    def worker(self) -> list[str]:
        return [sys.executable, __file__, "work", self._uri]


def work(uri: str) -> None:
    board = board_on(uri)
    while True:
        work_through(board, board.wait(timeout=60))


if __name__ == "__main__":
    main(OnRedis, work, measure_backlog)
