"""Handlers that complete their jobs in transactions of their own, on an SQLite file: ``path`` of the details."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from jobboard import AsyncRunningJob, Backoff, Handlers, InvalidPosting, JobBoard, RunningJob, fetch

QUICK = Backoff(first=0.01, factor=1, jitter=0)
handlers = Handlers(max_attempts=2, backoff=QUICK)
_boards: dict[str, JobBoard] = {}


@contextmanager
def transaction(job: RunningJob | AsyncRunningJob) -> Iterator[sqlite3.Connection]:
    """A transaction in which the effect of the job has happened."""
    if isinstance(job, RunningJob):
        # To be opened, a board needs the lock that the transaction will have.
        board_of(job)
    connection = sqlite3.connect(job.details["path"], isolation_level="IMMEDIATE", timeout=30)
    try:
        with connection:
            connection.execute("INSERT INTO effects VALUES (?, ?)", [job.uuid, job.attempts])
            yield connection
    finally:
        connection.close()


def board_of(job: RunningJob) -> JobBoard | None:
    """Return a board of this worker process, which has none of the conductor's; None elsewhere."""
    try:
        return job.board
    except RuntimeError:
        path = job.details["path"]
        if path not in _boards:
            _boards[path] = fetch("work", f"sqlite:///{path}")
            _boards[path].connect()
        return _boards[path]


def echo(job: RunningJob) -> str:
    return job.name


@handlers.handler("commit")
def commit(job: RunningJob) -> str:
    with transaction(job) as connection:
        job.complete({"by": "complete"}, connection=connection, board=board_of(job))
    return "what the handler returns"


@handlers.handler("commit later")
async def commit_later(job: AsyncRunningJob) -> None:
    await asyncio.sleep(0)
    with transaction(job) as connection:
        await job.complete({"by": "complete"}, connection=connection)


@handlers.handler("raise before the commit")
def raise_before_the_commit(job: RunningJob) -> None:
    with transaction(job) as connection:
        job.complete(connection=connection, board=board_of(job))
        if job.attempts == 1:
            raise ValueError("before the commit")


@handlers.handler("raise after the commit")
def raise_after_the_commit(job: RunningJob) -> None:
    commit(job)
    raise ValueError("after the commit")


@handlers.handler("forget the commit")
def forget_the_commit(job: RunningJob) -> None:
    board_of(job)
    connection = sqlite3.connect(job.details["path"], isolation_level="IMMEDIATE", timeout=30)
    connection.execute("INSERT INTO effects VALUES (?, ?)", [job.uuid, job.attempts])
    job.complete(connection=connection, board=board_of(job))
    connection.close()


@handlers.handler("come late")
def come_late(job: RunningJob) -> None:
    """At its first attempt its claim is lost before it ends it."""
    if job.attempts == 1:
        with fetch("work", f"sqlite:///{job.details['path']}") as board:
            board.release(job.uuid, reason="the test")
    with transaction(job) as connection:
        job.complete(connection=connection, board=board_of(job))


@handlers.handler("at once")
def at_once(job: RunningJob) -> str:
    job.complete("at once")
    return "what the handler returns"


@handlers.handler("be refused")
def be_refused(job: RunningJob) -> str:
    """Neither changes anything, so that the job ends as its handler does."""
    for connection, result in ((sqlite3.connect(job.details["path"]), object()), (object(), "fine")):
        try:
            job.complete(result, connection=connection, board=board_of(job))
        except (TypeError, InvalidPosting):
            continue
        raise AssertionError("it was taken")
    return "what the handler returns"
