"""Handlers that log as applications do, and as libraries that they call: by loggers that know no job."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable

from jobboard import AsyncBatchJob, AsyncRunningJob, BatchJob, Handlers, RunningJob, current_job
from jobboard.logs import JobFilter

logger = logging.getLogger("somebody.elses.library")
handlers = Handlers(max_attempts=1)


def found() -> list[object]:
    """Return which job there is here, and what the filter adds to a record that is made here."""
    job = current_job()
    record = logger.makeRecord(logger.name, logging.INFO, __file__, 1, "asked", (), None)
    JobFilter().filter(record)
    return [job and job.uuid, {name: getattr(record, name) for name in ("job", "uuid", "attempt")}]


def in_thread(function: Callable[[], object]) -> object:
    got: list[object] = []
    thread = threading.Thread(target=lambda: got.append(function()))
    thread.start()
    thread.join()
    return got[0]


@handlers.handler("plain")
def plain(job: RunningJob) -> object:
    logger.info("asks of %s", "plain")
    assert current_job() is job
    context = contextvars.copy_context()
    return [found(), job.step("found", found), in_thread(found), in_thread(lambda: context.run(found))]


@handlers.handler("later")
async def later(job: AsyncRunningJob) -> object:
    logger.info("asks of %s", "later")
    assert current_job() is job
    await asyncio.sleep(0)
    in_task = await asyncio.create_task(asyncio.to_thread(found))
    return [found(), in_task, in_thread(found), await job.step("found", found)]


@handlers.batch("batch", wait=0)
def batch(jobs: list[BatchJob]) -> object:
    logger.info("asks of %s", "batch")
    return {job: found() for job in jobs}


@handlers.batch("later batch", wait=0)
async def later_batch(jobs: list[AsyncBatchJob]) -> object:
    return {job: found() for job in jobs}


@handlers.handler("fail")
def fail(job: RunningJob) -> None:
    raise ValueError("after which nothing of it is left")
