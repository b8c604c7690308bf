"""kazoo's own recipe, the LockingQueue: values of bytes, one lock for each client."""

from __future__ import annotations

import sys

import kazoo.version
from backlogs import measure_backlog
from kazoo.client import KazooClient
from kazoo.recipe.queue import LockingQueue
from measuring import System, main, picked_up, ran


def queue_on(client: KazooClient, path: str) -> LockingQueue:
    return LockingQueue(client, path)


def client_on(uri: str) -> KazooClient:
    client = KazooClient(hosts=uri.removeprefix("zookeeper://"))
    client.start()
    return client


class Kazoo(System):
    version = f"kazoo {kazoo.version.__version__}"
    has_batches = True

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._client = client_on(uri)
        self._generation = 0

    def clean(self) -> None:
        self._generation += 1
        self._path = f"/kazoo/queue-{self._generation}"
        self.queue = queue_on(self._client, self._path)

    def post(self, count: int) -> None:
        for _ in range(count):
            self.queue.put(b"no-op")

    def post_many(self, count: int) -> None:
        for _ in range(0, count, 100):
            self.queue.put_all([b"no-op"] * 100)

    def ping(self, at: float) -> None:
        self.queue.put(repr(at).encode())

    def worker(self) -> list[str]:
        return [sys.executable, __file__, "work", self._uri, self._path]

    def claim(self) -> None:
        self.queue.get()

    def give_back(self) -> None:
        self.queue.release()


def work(uri: str, path: str) -> None:
    queue = queue_on(client_on(uri), path)
    while True:
        value = queue.get()
        if value == b"no-op":
            ran()
        else:
            picked_up(float(value))
        queue.consume()


if __name__ == "__main__":
    main(Kazoo, work, measure_backlog)
