"""Handlers that worker processes can import."""

from __future__ import annotations

import asyncio
import gc
import os
import re
import threading
import time
import weakref
from collections.abc import Callable

from jobboard import AsyncRunningJob, Backoff, Broken, Cancelled, Handlers, RunAgain, RunningJob

QUICK = Backoff(first=0.01, factor=1, jitter=0)
handlers = Handlers()


@handlers.handler("echo")
def echo(job: RunningJob) -> object:
    return {"details": job.details, "token": job.token, "attempts": job.attempts, "pid": os.getpid()}


@handlers.handler("echo later")
async def echo_later(job: RunningJob) -> object:
    await asyncio.sleep(0.01)
    return job.details


@handlers.handler("fail", max_attempts=3, backoff=QUICK)
def fail(job: RunningJob) -> None:
    raise ValueError(f"attempt {job.attempts}")


@handlers.handler("fail later", max_attempts=1)
async def fail_later(_job: RunningJob) -> None:
    await asyncio.sleep(0)
    raise ValueError("later")


@handlers.handler("broken", backoff=QUICK)
def broken(_job: RunningJob) -> None:
    raise Broken("nobody can read this")


@handlers.handler("fail once", backoff=QUICK)
def fail_once(job: RunningJob) -> str:
    if job.attempts == 1:
        raise ValueError("the first time")
    return "the second time"


@handlers.handler("three steps", max_attempts=1)
def three_steps(job: RunningJob) -> list[int]:
    done = [*(job.checkpoint or []), len(job.checkpoint or [])]
    job.checkpoint_state(done)
    if len(done) < 3:
        raise RunAgain(after=0.01)
    return done


@handlers.handler("too many requests")
def too_many_requests(_job: RunningJob) -> None:
    raise RunAgain(after=600, pause_lane=True)


@handlers.handler("die", max_attempts=2, backoff=QUICK)
def die(_job: RunningJob) -> None:
    os._exit(7)


@handlers.handler("hang", max_attempts=1, timeout=0.3)
def hang(job: RunningJob) -> str:
    while not job.lost:
        time.sleep(0.005)
    return "too late"


@handlers.handler("hang later", max_attempts=1, timeout=0.3)
async def hang_later(_job: RunningJob) -> None:
    await asyncio.sleep(60)


@handlers.handler("obey")
def obey(job: RunningJob) -> None:
    while not (job.cancelled or job.lost):
        time.sleep(0.005)
    raise Cancelled


@handlers.handler("obey later")
async def obey_later(_job: RunningJob) -> None:
    await asyncio.sleep(60)


@handlers.handler("ignore")
def ignore(_job: RunningJob) -> None:
    threading.Event().wait(60)


@handlers.handler("hold the interpreter")
def hold_the_interpreter(job: RunningJob) -> str:
    """Backtracking in C lets go of the interpreter for nobody."""
    began = time.monotonic()
    length = 18
    while time.monotonic() - began < job.details["seconds"]:
        re.match(r"(a+)+$", "a" * length + "b")
        length += 1
    return "done"


@handlers.handler("spin")
def spin(job: RunningJob) -> str:
    until = time.monotonic() + job.details["seconds"]
    while time.monotonic() < until:
        pass
    return "done"


@handlers.handler("block the loop")
async def block_the_loop(job: RunningJob) -> str:
    time.sleep(job.details["seconds"])
    return "done"


@handlers.handler("wait for lost")
def wait_for_lost(job: RunningJob) -> str:
    while not job.lost:
        time.sleep(0.005)
    return "dropped"


@handlers.handler("progress")
def progress(job: RunningJob) -> None:
    job.progress(3, 10, "three of ten")
    while not (job.cancelled or job.lost):
        time.sleep(0.005)
    raise Cancelled


@handlers.handler("report and end", max_attempts=2, backoff=Backoff(first=3600))
def report_and_end(job: RunningJob) -> object:
    """Report twice, the last time right before the end that the details ask for."""
    job.progress(1, 20)
    job.progress(20, 20)
    ends: dict[str, Callable[[], object]] = {
        "return": lambda: "a result",
        "complete": lambda: job.complete("a result"),
        "again": lambda: RunAgain(after=3600),
        "sleep": lambda: job.sleep(3600),
        "wait": lambda: job.wait_for("approved"),
    }
    end = job.details["end"]
    if end in ends:
        return ends[end]()
    raise (Broken if end == "broken" else ValueError)(end)


@handlers.handler("report and end later")
async def report_and_end_later(job: AsyncRunningJob) -> None:
    await job.progress(1, 20)
    # What is not awaited is done before the end.
    job.progress(20, 20)


@handlers.handler("bad result", backoff=QUICK)
def bad_result(_job: RunningJob) -> object:
    return {"call": 1j}


@handlers.handler("journal")
def journal(job: RunningJob) -> int:
    book = job.book
    assert book is not None
    book.append(attempt=job.attempts)
    job.save_book(book)
    return len(book)


@handlers.handler("sleep")
def sleep(job: RunningJob) -> None:
    time.sleep(job.details["seconds"])


@handlers.handler("nap")
def nap(job: RunningJob) -> float:
    """Return when it began."""
    began = time.time()
    while not job.lost and time.time() - began < job.details["seconds"]:
        time.sleep(0.005)
    return began


@handlers.handler("nap later")
async def nap_later(job: RunningJob) -> float:
    began = time.time()
    await asyncio.sleep(job.details["seconds"])
    return began


_seen: list[weakref.ref[RunningJob]] = []


@handlers.handler("count the others")
def count_others(job: RunningJob) -> int:
    """Return how many jobs that ran in this process before are still in memory, without a garbage collection."""
    gc.disable()
    others = sum(seen() is not None for seen in _seen)
    _seen.append(weakref.ref(job))
    return others
