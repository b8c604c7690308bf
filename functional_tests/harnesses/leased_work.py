"""Handlers of conductor processes with a lifespan, plain and async; both keep a diary beside the board."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator

from jobboard import AsyncRunningJob, Backoff, Handlers, RunningJob

QUICK = Backoff(first=0.01, factor=1, jitter=0)
handlers, async_handlers, broken, unclosed = (Handlers(backoff=QUICK) for _ in range(4))


def note(line: str) -> None:
    descriptor = os.open(os.environ["LEASED_DIARY"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{line} {os.getpid()}\n".encode())
    finally:
        os.close(descriptor)


@handlers.lifespan
def lease() -> Iterator[str]:
    note("open")
    yield "lease"
    note("closed")


@async_handlers.lifespan
async def lease_on_loop() -> AsyncIterator[str]:
    note("open")
    await asyncio.sleep(0)
    yield "lease"
    await asyncio.sleep(0)
    note("closed")


@broken.lifespan
def lease_of_nothing() -> Iterator[None]:
    raise OSError("the database is away")
    yield


@unclosed.lifespan
def lease_for_ever() -> Iterator[None]:
    yield
    raise OSError("the database does not answer")


@handlers.handler("last")
@broken.handler("last")
@unclosed.handler("last")
def last(job: RunningJob) -> str:
    note("begin")
    time.sleep(job.details["seconds"])
    note("end")
    return str(job.resources)


@async_handlers.handler("last")
async def last_on_loop(job: AsyncRunningJob) -> str:
    note("begin")
    await asyncio.sleep(job.details["seconds"])
    note("end")
    return str(job.resources)


if __name__ == "__main__":
    from jobboard import Conductor, backend

    # A child that its program forks ends as programs do, and closes nothing of its parent's.
    with backend("crew", "memory://forked") as board, Conductor("crew", board, handlers):
        assert board.post("last", {"seconds": 0}).get_result(30) == "lease"
        if not (child := os.fork()):
            raise SystemExit
        os.waitpid(child, 0)
