"""TaskFlow's etcd job board, by a loop over its jobs; also what a claim costs with few and with many jobs."""

from __future__ import annotations

import os
import sys
from typing import Any

from backlogs import measure_backlog
from etcd3gw.client import Etcd3Client
from measuring import main
from taskflow.jobs.backends.impl_etcd import EtcdJobBoard
from taskflows import TaskFlow, work_through

_EXPIRY = 30


def place_of(uri: str) -> dict[str, Any]:
    host, _, port = uri.removeprefix("etcd://").partition("/")[0].partition(":")
    return {"host": host, "port": int(port)}


def board_on(uri: str) -> Any:
    board = EtcdJobBoard("bench", place_of(uri))
    board.connect()
    return board


class OnEtcd(TaskFlow):
    def __init__(self, uri: str) -> None:
        super().__init__(uri, expiry=_EXPIRY)
        self._client = Etcd3Client(**place_of(uri))
        self.board = board_on(uri)

    def clean(self) -> None:
        self.board.close()
        self._client.delete_prefix("/taskflow")
        self.board = board_on(self._uri)

    def worker(self) -> list[str]:
        return [sys.executable, __file__, "work", self._uri]


def work(uri: str) -> None:
    board = board_on(uri)
    # A wait on a new client finds nothing that was there before it, so it has to look once by itself.
    jobs = board.iterjobs(ensure_fresh=True)
    while True:
        work_through(board, jobs, expiry=_EXPIRY)
        jobs = board.wait()


if __name__ == "__main__":
    main(OnEtcd, work, measure_backlog)
    sys.stdout.flush()
    # Its watcher threads outlive a close.
    os._exit(0)
