"""Handlers that fail in the way that their details say, and what they let follow from that."""

from __future__ import annotations

import time
from typing import Any

from jobboard import AsyncRunningJob, BatchJob, Broken, Handlers, RunAgain, RunningJob

DAY = 86_400.0


class Busy(Exception):
    """Says by itself when to try again, as an answer 429 does."""

    def __init__(self, retry_after: Any) -> None:
        super().__init__(f"busy: {retry_after!r}")
        self.retry_after = retry_after


def wait_as_told(attempt: int, error: Exception) -> Any:
    if isinstance(error, Busy):
        return DAY * attempt if error.retry_after == "by attempt" else error.retry_after
    if isinstance(error, ConnectionError):
        raise Broken
    raise SystemExit("it knows no such error")


def fail(job: Any) -> Any:
    kind, what = job.details["kind"], job.details.get("what")
    match kind:
        case "missing":
            raise KeyError("no such row")
        case "busy":
            raise Busy(what)
        case "again":
            raise RunAgain(after=DAY)
        case "refused":
            raise ConnectionRefusedError("by the other side")
        case "exit":
            raise SystemExit(5)
        case _:
            raise ValueError("bad luck")


handlers = Handlers(broken_on=(LookupError, RunAgain), backoff=wait_as_told)


@handlers.handler("plain")
def plain(job: RunningJob) -> Any:
    return fail(job)


@handlers.handler("later")
async def later(job: AsyncRunningJob) -> Any:
    return fail(job)


@handlers.batch("batch", wait=0)
def batch(jobs: list[BatchJob]) -> Any:
    return fail(jobs[0])


@handlers.batch("each", wait=0.2)
async def each(jobs: list[BatchJob]) -> None:
    for job in jobs:
        try:
            fail(job)
        except Exception as error:
            job.fail(error)


@handlers.handler("slow", timeout=0.2)
def slow(job: RunningJob) -> None:
    while not job.lost:
        time.sleep(0.01)
