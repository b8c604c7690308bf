"""Batch handlers that worker processes can import; each call is a line of the file ``diary`` of the first details."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from jobboard import AsyncBatchJob, Backoff, BatchJob, Handlers

handlers = Handlers(max_attempts=2, backoff=Backoff(first=0.01, factor=1, jitter=0))


def note(jobs: Any) -> int:
    """Write the numbers of the jobs in a line, and return how many calls there were."""
    diary = Path(jobs[0].details["diary"])
    with diary.open("a") as file:
        file.write(" ".join(str(job.details["number"]) for job in jobs) + "\n")
    return len(diary.read_text().splitlines())


@handlers.batch("index", size=50, wait=0)
def index(jobs: list[BatchJob]) -> dict[Any, Any]:
    note(jobs)
    for job in jobs:
        job.progress(1)
    jobs[0].checkpoint_state("seen")
    return {job: job.details["number"] for job in jobs}


@handlers.batch("index later", size=50, wait=0)
async def index_later(jobs: list[AsyncBatchJob]) -> dict[Any, Any]:
    note(jobs)
    for job in jobs:
        await job.progress(1)
    await jobs[0].checkpoint_state("seen")
    return {job: job.details["number"] for job in jobs}


@handlers.batch("wait for more", size=3, wait=30)
def wait_for_more(jobs: list[BatchJob]) -> None:
    note(jobs)


@handlers.batch("until cancelled", size=3, wait=30)
def until_cancelled(jobs: list[BatchJob]) -> dict[Any, Any]:
    """Return once one is cancelled and the diary has two lines, the second of which the test writes."""
    diary, until = Path(jobs[0].details["diary"]), time.monotonic() + 30
    note(jobs)
    while time.monotonic() < until:
        cancelled = [job for job in jobs if job.cancelled]
        if cancelled and len(diary.read_text().splitlines()) > 1:
            return {job: len(cancelled) for job in jobs}
        threading.Event().wait(0.01)
    raise AssertionError("none was cancelled")


@handlers.batch("die once", size=3, wait=30)
def die_once(jobs: list[BatchJob]) -> None:
    if note(jobs) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
