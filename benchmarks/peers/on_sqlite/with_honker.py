"""honker: an extension of SQLite, written in Rust, by its Python binding; a finished job leaves nothing."""

from __future__ import annotations

import asyncio
import importlib.metadata
import sys
from urllib.parse import parse_qs, urlsplit

import honker
from measuring import System, main, picked_up, ran

_WHO = "bench"


def database_on(uri: str) -> honker.Database:
    parts = urlsplit(uri)
    database = honker.open(f"{parts.path}.honker")
    with database.transaction() as transaction:
        # honker sets NORMAL on its writer, and has no option for it; SQLite takes another one between transactions.
        transaction.execute("COMMIT")
        transaction.execute(f"PRAGMA synchronous={parse_qs(parts.query)['synchronous'][0]}")
        transaction.execute("BEGIN IMMEDIATE")
    return database


class Honker(System):
    version = f"honker {importlib.metadata.version('honker')}"
    has_batches = has_pairs = True

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._database = database_on(uri)
        self._generation = 0

    def clean(self) -> None:
        self._generation += 1
        self._queue = self._database.queue(f"bench-{self._generation}")

    def post(self, count: int) -> None:
        for _ in range(count):
            self._queue.enqueue({})

    def post_many(self, count: int) -> None:
        for _ in range(0, count, 100):
            with self._database.transaction() as transaction:
                for _ in range(100):
                    self._queue.enqueue({}, tx=transaction)

    def claim_and_consume(self, count: int, batch: int) -> None:
        done = 0
        while done < count:
            jobs = self._queue.claim_batch(_WHO, min(batch, count - done))
            done += self._queue.ack_batch([job.id for job in jobs], _WHO)

    def ping(self, at: float) -> None:
        self._queue.enqueue({"at": at})

    def worker(self) -> list[str]:
        return [sys.executable, __file__, "work", self._uri, f"bench-{self._generation}"]


def work(uri: str, name: str) -> None:
    asyncio.run(_work(database_on(uri).queue(name)))


async def _work(queue: honker.Queue) -> None:
    async for woken in queue.claim(_WHO):
        _run(woken)
        woken.ack()
        while jobs := queue.claim_batch(_WHO, 128):
            for job in jobs:
                _run(job)
            queue.ack_batch([job.id for job in jobs], _WHO)


def _run(job: honker.Job) -> None:
    if job.payload:
        picked_up(job.payload["at"])
    else:
        ran()


if __name__ == "__main__":
    main(Honker, work)
