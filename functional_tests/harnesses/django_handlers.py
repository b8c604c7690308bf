"""Handlers of the Django shop that are no tasks: in threads, on an event loop, in processes, and for batches."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection, transaction
from shop.models import Order

from jobboard import AsyncRunningJob, Backoff, BatchJob, Handlers, RunningJob
from jobboard.contrib.django import board, task_handlers

handlers = Handlers(backoff=Backoff(first=0.1, jitter=0))
handlers.include(task_handlers())


@handlers.handler
def plain(job: RunningJob) -> int:
    return Order.objects.count()


@handlers.handler
async def later(job: AsyncRunningJob) -> int:
    return await Order.objects.acount()


@handlers.handler(executor="asyncio")
async def on_loop(job: AsyncRunningJob) -> int:
    return await Order.objects.acount()


@handlers.handler(executor="process")
def elsewhere(job: RunningJob) -> None:
    with transaction.atomic():
        job.complete(Order.objects.count(), connection=connection, board=board())


@handlers.handler
def with_its_board(job: RunningJob) -> None:
    with transaction.atomic():
        job.complete(Order.objects.count(), connection=connection, board=board())


@handlers.batch("many", wait=0)
def many(jobs: Sequence[BatchJob]) -> dict[str, int]:
    return {job.uuid: Order.objects.count() for job in jobs}
