"""What another process does on the same board, for races and for deaths.

It says ``"ready"`` once it is connected, begins when it is told to go, and tells of each job.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection

from jobboard.board import JobBoard
from jobboard.errors import ClaimLost, JobBoardError
from jobboard.fetching import fetch
from jobboard.job import Job

#: The other end of this process's line: None tells it to go, and it tells of each job by a dict.
Line = Connection


def drain(board: JobBoard, who: str, line: Line) -> None:
    """Claim and consume one by one until nothing is left."""
    while jobs := board.claim_next(who, expiry=600):
        for job in jobs:
            board.consume(job, who, who)
            tell(line, job)


def drain_in_batches(board: JobBoard, who: str, line: Line) -> None:
    """The same, by seven at once."""
    while jobs := board.claim_next(who, limit=7, expiry=600):
        for job, error in zip(jobs, board.consume_many(jobs, who), strict=True):
            if error is None:
                tell(line, job)


def post(board: JobBoard, who: str, line: Line) -> None:
    """Post fifty jobs of one's own."""
    for number in range(50):
        tell(line, board.post("resize", details={"by": who, "n": number}))


def post_keys(board: JobBoard, who: str, line: Line) -> None:
    """Post twenty keys that every rival posts too; tell only of what was not there."""
    for number in range(20):
        try:
            tell(line, board.post("resize", details={"by": who}, key=f"key {number}"))
        except JobBoardError:
            pass


def hold(board: JobBoard, who: str, line: Line) -> None:
    """Claim one job for a short time, and go on with it when told to, however late that is."""
    (job,) = board.claim_next(who, expiry=0.5)
    tell(line, job)
    line.recv()
    try:
        board.consume(job, who, who)
        line.send({"outcome": "consumed"})
    except ClaimLost:
        line.send({"outcome": "lost"})


def tell(line: Line, job: Job) -> None:
    line.send({"uuid": job.uuid, "token": job.token})


TASKS: dict[str, Callable[[JobBoard, str, Line], None]] = {
    task.__name__: task for task in (drain, drain_in_batches, post, post_keys, hold)
}


def work(task: str, uri: str, name: str, who: str, line: Line) -> None:
    """Run one of the tasks; the target of a process."""
    with fetch(name, uri) as board:
        line.send("ready")
        line.recv()
        TASKS[task](board, who, line)
