"""DBOS: durable workflows in a queue, which a worker's threads poll."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import time

import psycopg
from dbos import DBOS, DBOSClient, EnqueueOptions
from measuring import System, arguments, measure, picked_up, ran

_QUEUE, _VERSION = "bench", "bench"
_SLOTS = 64
#: Seconds between two looks at the queue; the default of one second would be most of what is measured.
_POLL = 0.01


@DBOS.workflow(name="no_op")
def no_op() -> None:
    ran()


@DBOS.workflow(name="ping")
def ping(at: float) -> None:
    picked_up(at)


class Dbos(System):
    version = f"dbos {importlib.metadata.version('dbos')}"
    has_limits = True

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._limits = ("0", "0")
        launch(uri)
        DBOS.destroy()
        self._client = DBOSClient(system_database_url=uri)

    def clean(self) -> None:
        self._limits = ("0", "0")
        with psycopg.connect(self._uri, autocommit=True) as connection:
            connection.execute("TRUNCATE dbos.workflow_status CASCADE")

    def limit(self, running: int | None, rate: int | None) -> None:
        """Limit the queue; its worker declares it."""
        self._limits = (str(running or 0), str(rate or 0))

    def post(self, count: int) -> None:
        for _ in range(count):
            self._enqueue("no_op")

    def ping(self, at: float) -> None:
        self._enqueue("ping", at)

    def _enqueue(self, name: str, *arguments: float) -> None:
        options: EnqueueOptions = {"queue_name": _QUEUE, "workflow_name": name, "app_version": _VERSION}
        self._client.enqueue(options, *arguments)

    def worker(self) -> list[str]:
        return [sys.executable, __file__, "work", self._uri, *self._limits]


def launch(uri: str) -> None:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": uri,
            "application_version": _VERSION,
            "max_executor_threads": _SLOTS,
            "log_level": "ERROR",
        }
    )
    DBOS.launch()


def work(uri: str, running: int, rate: int) -> None:
    launch(uri)
    DBOS.register_queue(
        _QUEUE,
        global_concurrency=running or None,
        worker_concurrency=running or _SLOTS,
        limiter={"limit": rate, "period": 1.0} if rate else None,
        polling_interval_sec=_POLL,
        on_conflict="always_update",
    )
    while True:
        time.sleep(60)


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        uri, count, pings = arguments()
        measure(Dbos(uri), count, pings)
        # Its threads would wait for the server's end.
        sys.stdout.flush()
        os._exit(0)
