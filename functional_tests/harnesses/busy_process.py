"""``python busy_process.py ROLE URI BOARD OPTIONS``: posts or works, and says what it did, until its input ends."""

from __future__ import annotations

import json
import os
import select
import sys
import time

from working import insist

from jobboard import Job, JobBoard, fetch

#: Seconds between two postings, and between two looks at an empty board.
_PAUSE = 0.02


def say(what: str, job: Job) -> None:
    sys.stdout.write(f"{what} {job.uuid}\n")
    sys.stdout.flush()


def is_over() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def produce(board: JobBoard) -> None:
    while not is_over():
        say("posted", insist(lambda: board.post("resize")))
        time.sleep(_PAUSE)


def work(board: JobBoard) -> None:
    who = f"worker {os.getpid()}"
    while not is_over():
        jobs = insist(lambda: board.claim_next(who, limit=3, expiry=600.0))
        for job in jobs:
            say("ran", job)
            insist(lambda job=job: board.consume(job, who))  # type: ignore[misc]
            say("consumed", job)
        if not jobs:
            time.sleep(_PAUSE)


def main(role: str, uri: str, name: str, options: str) -> None:
    with fetch(name, uri, **json.loads(options)) as board:
        {"produce": produce, "work": work}[role](board)


if __name__ == "__main__":
    main(*sys.argv[1:])
