"""Exceptions that are raised in a thread from another one, as libraries do that limit the time of calls."""

from __future__ import annotations

import ctypes
import os
import queue
import random
import threading
import time
from pathlib import Path

from jobboard import Backoff, Handlers, RunningJob

QUICK = Backoff(first=0.01, factor=1, jitter=0)
handlers = Handlers(max_attempts=1000, backoff=QUICK)


class Late(BaseException):
    """It comes when the handler that was meant has ended."""


def raise_in(ident: int | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident or 0), ctypes.py_object(Late))


def threads(*beginnings: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(beginnings)]


@handlers.handler("pid")
def pid(_job: RunningJob) -> int:
    return os.getpid()


@handlers.handler("pid later")
async def pid_later(_job: RunningJob) -> int:
    return os.getpid()


@handlers.handler("all at once")
def all_at_once(job: RunningJob) -> None:
    """Return when this many run at a time."""
    barrier.wait(job.details["seconds"])


barrier = threading.Barrier(1)


#: The threads whose handlers may take some milliseconds.
limited: queue.SimpleQueue[int] = queue.SimpleQueue()


def limit_threads() -> None:
    """Raise something in each of them by and by, until there is a 0."""
    while ident := limited.get():
        time.sleep(random.uniform(0.0, 0.004))
        raise_in(ident)


@handlers.handler("too slow by chance")
def too_slow_by_chance(_job: RunningJob) -> None:
    limited.put(threading.get_ident())
    time.sleep(0.001)


@handlers.handler("leave an exception")
def leave_an_exception(job: RunningJob) -> int:
    """Raise it in a thread of this worker process, when the handler has ended; then make the file ``raised``."""
    [target] = threads(job.details["thread"])

    def raise_it() -> None:
        time.sleep(0.2)
        raise_in(target.ident)
        Path(job.details["raised"]).touch()

    threading.Thread(target=raise_it, daemon=True).start()
    return os.getpid()
