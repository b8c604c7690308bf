"""Handlers that are silent, or give one sign of life and then are."""

from __future__ import annotations

import asyncio
import time

from jobboard import AsyncRunningJob, BatchJob, Handlers, LogBook, RunningJob

handlers = Handlers(max_attempts=1)
#: So long that no test waits for it.
LONG = 3600.0


def sign(job: RunningJob | BatchJob, kind: str) -> None:
    match kind:
        case "progress":
            job.progress(1)
        case "step":
            job.step("first", int)
        case "checkpoint":
            job.checkpoint_state("first")
        case "book":
            job.save_book(LogBook("first"))


async def sign_later(job: AsyncRunningJob, kind: str) -> None:
    match kind:
        case "progress":
            await job.progress(1)
        case "step":
            await job.step("first", int)
        case "checkpoint":
            await job.checkpoint_state("first")
        case "book":
            await job.save_book(LogBook("first"))


def until_told(job: RunningJob) -> None:
    while not (job.lost or job.cancelled):
        time.sleep(0.01)


@handlers.handler("plain", silent_for=LONG)
def plain(job: RunningJob) -> None:
    sign(job, job.details["sign"])
    until_told(job)


@handlers.handler("later", silent_for=LONG)
async def later(job: AsyncRunningJob) -> None:
    await sign_later(job, job.details["sign"])
    await asyncio.sleep(LONG)


@handlers.batch("batch", size=2, wait=10, silent_for=LONG)
def batch(jobs: list[BatchJob]) -> None:
    sign(jobs[-1], jobs[-1].details["sign"])
    until_told(jobs[0])


silent = Handlers(max_attempts=1, silent_for=0.2)
for name in ("plain", "later", "batch"):
    if name == "batch":
        silent.batch(name, size=2, wait=10)(batch.function)
    else:
        silent.add(name, handlers[name].function)
