"""PgQueuer: one statement takes a batch, ends are written by batches, coroutines are woken by NOTIFY."""

from __future__ import annotations

import asyncio
import importlib.metadata
import sys
import uuid
from datetime import timedelta
from typing import Any

import asyncpg
import uvloop
from measuring import System, main, picked_up, ran
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import EntrypointExecutionParameter, Queries

_BATCH = 100


class Pgqueuer(System):
    version = f"pgqueuer {importlib.metadata.version('pgqueuer')}"
    has_batches = has_pairs = True

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._loop = uvloop.new_event_loop()
        self._connection: Any = self._loop.run_until_complete(asyncpg.connect(uri))
        self._queries = Queries(AsyncpgDriver(self._connection))
        if not self._loop.run_until_complete(self._queries.schema_is_installed()):
            self._loop.run_until_complete(self._queries.install())

    def clean(self) -> None:
        self._loop.run_until_complete(self._connection.execute("TRUNCATE pgqueuer, pgqueuer_log"))

    def post(self, count: int) -> None:
        async def post() -> None:
            for _ in range(count):
                await self._queries.enqueue("no_op", None)

        self._loop.run_until_complete(post())

    def post_many(self, count: int) -> None:
        async def post() -> None:
            for _ in range(0, count, 100):
                await self._queries.enqueue(["no_op"] * 100, [None] * 100, [0] * 100)

        self._loop.run_until_complete(post())

    def claim_and_consume(self, count: int, batch: int) -> None:
        async def work() -> None:
            wanted, manager, left = {"no_op": EntrypointExecutionParameter(0)}, uuid.uuid4(), count
            while left:
                jobs = await self._queries.dequeue(min(batch, left), wanted, manager, None, timedelta(seconds=30))
                await self._queries.log_jobs([(job, "successful", None) for job in jobs])
                left -= len(jobs)

        self._loop.run_until_complete(work())

    def ping(self, at: float) -> None:
        self._loop.run_until_complete(self._queries.enqueue("ping", repr(at).encode()))

    def worker(self) -> list[str]:
        return [sys.executable, __file__, "work", self._uri]


async def _work(uri: str) -> None:
    queuer = PgQueuer(AsyncpgDriver(await asyncpg.connect(uri)))

    @queuer.entrypoint("no_op")
    async def no_op(_job: Job) -> None:
        ran()

    @queuer.entrypoint("ping")
    async def ping(job: Job) -> None:
        picked_up(float(job.payload or b"0"))

    await queuer.run(dequeue_timeout=timedelta(seconds=30), batch_size=_BATCH)


def work(uri: str) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(uri))


if __name__ == "__main__":
    main(Pgqueuer, work)
