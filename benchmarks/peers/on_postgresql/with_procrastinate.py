"""Procrastinate: stored procedures, psycopg, coroutines that are woken by NOTIFY."""

from __future__ import annotations

import importlib.metadata
import os
import sys

import procrastinate
import psycopg
from measuring import System, main, picked_up, ran

_SLOTS = 64


def app_of(connector: procrastinate.BaseConnector) -> procrastinate.App:
    app = procrastinate.App(connector=connector)

    @app.task(name="no_op")
    async def no_op() -> None:
        ran()

    @app.task(name="ping")
    async def ping(at: float) -> None:
        picked_up(at)

    return app


class Procrastinate(System):
    version = f"procrastinate {importlib.metadata.version('procrastinate')}"
    has_batches = True

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._app = app_of(procrastinate.SyncPsycopgConnector(conninfo=uri))
        self._app.open()
        with psycopg.connect(uri) as connection:
            [has_schema] = connection.execute("SELECT to_regclass('procrastinate_jobs') IS NOT NULL").fetchone() or [
                False
            ]
        if not has_schema:
            self._app.schema_manager.apply_schema()
        self._no_op, self._ping = self._app.tasks["no_op"], self._app.tasks["ping"]

    def clean(self) -> None:
        with psycopg.connect(self._uri, autocommit=True) as connection:
            connection.execute("TRUNCATE procrastinate_jobs CASCADE")

    def post(self, count: int) -> None:
        for _ in range(count):
            self._no_op.defer()

    def post_many(self, count: int) -> None:
        for _ in range(0, count, 100):
            self._no_op.batch_defer(*[{}] * 100)

    def ping(self, at: float) -> None:
        self._ping.defer(at=at)

    def worker(self) -> list[str]:
        return [sys.executable, __file__, "work", self._uri]


def work(uri: str) -> None:
    app = app_of(procrastinate.PsycopgConnector(conninfo=uri, max_size=10))
    app.run_worker(concurrency=_SLOTS)


if __name__ == "__main__":
    main(Procrastinate, work)
    # Its pool's threads would wait for the server's end.
    sys.stdout.flush()
    os._exit(0)
