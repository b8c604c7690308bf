"""A process that posts to a board of shards, or works on it, until SIGTERM: ``shard_crew.py ROLE DIARY URI URI...``.

Who posts writes down each job whose post is certain; who works, each run with its moments.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from itertools import count
from typing import TextIO

from jobboard import AlreadyPosted, Conductor, Handlers, JobBoard, fetch
from jobboard.job import Job


def main(role: str, diary: str, *uris: str) -> None:
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    with fetch("jobs", "shards://", uris=list(uris), retention=0.0) as board, open(diary, "a", buffering=1) as file:
        if role == "producer":
            post(board, file, is_over)
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
    is_over.wait()
    conductor.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
