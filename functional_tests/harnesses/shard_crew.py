"""A process that uses a board of shards until SIGTERM: ``shard_crew.py ROLE DIARY URI URI...``.

A producer posts, and writes down each job whose post is certain; a conductor works, and writes down each run with its
moments; a mover lets shards take turns with limits of names, as fast as it can.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from itertools import count
from typing import TextIO

from jobboard import AlreadyPosted, Conductor, Handlers, JobBoard, fetch
from jobboard.backends.shards import ShardsBackend
from jobboard.job import Job


def main(role: str, diary: str, *uris: str) -> None:
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    with fetch("jobs", "shards://", uris=list(uris), retention=0.0) as board, open(diary, "a", buffering=1) as file:
        if role == "producer":
            post(board, file, is_over)
        elif role == "mover":
            move(board, is_over)
        else:
            work(board, file, is_over)


def post(board: JobBoard, file: TextIO, is_over: threading.Event) -> None:
    for turn in count():
        if is_over.wait(0.01):
            return
        posted = [board.post("resize"), board.post("resize", lane=f"tenant:{turn % 7}")]
        try:
            posted.append(board.post("resize", key=f"key {turn % 11}"))
        except AlreadyPosted:
            pass
        file.writelines(f"{job.uuid}\n" for job in posted)


def work(board: JobBoard, file: TextIO, is_over: threading.Event) -> None:
    def resize(job: Job) -> None:
        begun = time.monotonic()
        time.sleep(0.003)
        file.write(f"{job.uuid}|{job.key or ''}|{job.lane or ''}|{begun}|{time.monotonic()}\n")

    handlers = Handlers()
    handlers.add("resize", resize)
    conductor = Conductor("mill", board, handlers, concurrency=4)
    conductor.start()
    # A signal that another thread got does not wake the main thread.
    while not is_over.wait(0.5):
        pass
    conductor.stop()


def move(board: JobBoard, is_over: threading.Event) -> None:
    backend = board._backend
    assert isinstance(backend, ShardsBackend)
    while not is_over.wait(0.001):
        backend.turns.take_now(None)


if __name__ == "__main__":
    main(*sys.argv[1:])
