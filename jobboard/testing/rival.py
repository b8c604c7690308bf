"""Another process on the same board, for races and for deaths: ``python -m jobboard.testing.rival TASK URI NAME WHO``.

It says ``ready`` once it is connected, begins at the first line of its input, and prints one JSON line per job.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from jobboard.board import JobBoard
from jobboard.errors import ClaimLost, JobBoardError
from jobboard.fetching import fetch
from jobboard.job import Job


def drain(board: JobBoard, who: str) -> None:
    """Claim and consume one by one until nothing is left."""
    while jobs := board.claim_next(who, expiry=600):
        for job in jobs:
            board.consume(job, who, who)
            tell(job)


def drain_in_batches(board: JobBoard, who: str) -> None:
    """The same, by seven at once."""
    while jobs := board.claim_next(who, limit=7, expiry=600):
        for job, error in zip(jobs, board.consume_many(jobs, who), strict=True):
            if error is None:
                tell(job)


def post(board: JobBoard, who: str) -> None:
    """Post fifty jobs of one's own."""
    for number in range(50):
        tell(board.post("resize", details={"by": who, "n": number}))


def post_keys(board: JobBoard, who: str) -> None:
    """Post twenty keys that every rival posts too; tell only of what was not there."""
    for number in range(20):
        try:
            tell(board.post("resize", details={"by": who}, key=f"key {number}"))
        except JobBoardError:
            pass


def hold(board: JobBoard, who: str) -> None:
    """Claim one job for a short time, and go on with it at the next line of input, however late that is."""
    (job,) = board.claim_next(who, expiry=0.5)
    tell(job)
    sys.stdin.readline()
    try:
        board.consume(job, who, who)
        print(json.dumps({"outcome": "consumed"}), flush=True)
    except ClaimLost:
        print(json.dumps({"outcome": "lost"}), flush=True)


def tell(job: Job) -> None:
    print(json.dumps({"uuid": job.uuid, "token": job.token}), flush=True)


TASKS: dict[str, Callable[[JobBoard, str], None]] = {
    task.__name__: task for task in (drain, drain_in_batches, post, post_keys, hold)
}


def main(task: str, uri: str, name: str, who: str) -> None:
    with fetch(name, uri) as board:
        print("ready", flush=True)
        sys.stdin.readline()
        TASKS[task](board, who)


if __name__ == "__main__":
    main(*sys.argv[1:])
