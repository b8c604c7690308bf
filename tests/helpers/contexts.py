"""Handlers that change the context in which they run, and return what they found there."""

from __future__ import annotations

import asyncio
import decimal
from contextvars import ContextVar

from jobboard import Handlers, RunningJob

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
handlers = Handlers()
# As a module of an application may; a worker process imports it in the thread that will run handlers.
decimal.getcontext()


def look_and_change(job: RunningJob) -> list[object]:
    found: list[object] = [tenant.get(), decimal.getcontext().prec]
    tenant.set(f"secret of {job.uuid}")
    decimal.getcontext().prec = 3
    return found


@handlers.handler("plain")
def plain(job: RunningJob) -> object:
    return look_and_change(job)


@handlers.handler("later")
async def later(job: RunningJob) -> object:
    found = look_and_change(job)
    await asyncio.sleep(0)
    return [*found, *await asyncio.to_thread(lambda: [tenant.get()[:9], decimal.getcontext().prec])]


@handlers.handler("raise")
def fail(job: RunningJob) -> None:
    look_and_change(job)
    raise ValueError("its context is left as it was then")
