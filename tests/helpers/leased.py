"""Handlers with a lifespan that worker processes can import; it keeps a diary, and fails while a file says so."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jobboard import Backoff, BatchJob, Handlers, RunningJob

QUICK = Backoff(first=0.01, factor=1, jitter=0)
handlers = Handlers(backoff=QUICK)


@dataclass
class Pool:
    pid: int
    is_open: bool = True


def note(line: str) -> None:
    with Path(os.environ["LEASED_DIARY"]).open("a") as diary:
        diary.write(f"{line} {os.getpid()}\n")


def is_broken(what: str) -> bool:
    return Path(os.environ["LEASED_DIARY"]).with_suffix(f".{what}").exists()


@handlers.lifespan
def leases() -> Iterator[Pool]:
    if is_broken("start"):
        raise OSError("the database is away")
    pool = Pool(os.getpid())
    note("open")
    yield pool
    if is_broken("end"):
        raise OSError("the database does not answer")
    pool.is_open = False
    note("closed")


@handlers.handler("pid")
def pid(job: RunningJob[Pool]) -> int:
    assert job.resources.is_open
    return job.resources.pid


@handlers.batch("pids", wait=0.0)
def pids(jobs: list[BatchJob[Pool]]) -> dict[str, int]:
    return {job.uuid: job.resources.pid for job in jobs}


@handlers.handler("die")
def die(job: RunningJob[Pool]) -> int:
    if job.attempts == 1:
        os._exit(1)
    return job.resources.pid


@handlers.handler("last")
def last(job: RunningJob[Pool]) -> None:
    note("begin")
    time.sleep(job.details["seconds"])
    assert job.resources.is_open
    note("end")


@handlers.handler("fork", max_attempts=1)
def fork(job: RunningJob[Pool]) -> int:
    """A child that a handler forks ends as a program does, and must not close what its parent uses."""
    child = os.fork()
    if not child:
        raise SystemExit
    os.waitpid(child, 0)
    return job.resources.pid
