"""A conductor in a history, whose handlers do what the numbers in their jobs' details say."""

from __future__ import annotations

import threading
import time
from typing import Any

from jobboard import Conductor, Handlers, JobBoard, RunAgain, RunningJob
from jobboard.conductor import Backoff

from .plan import CONDUCTED
from .records import Diary
from .worker import Stop
from .written_down import write_down

#: Seconds that the claims of each conductor last: few, so that many faults outlast them; but enough that a store which
#: can makes them ahead. Replies are held on the lines of the first two.
EXPIRIES = {"c0": 2.0, "c1": 16.0, "c2": 16.0}
HELD = ("c0", "c1")
#: The conductor whose jobs' rows are locked.
LOCKED = "c2"
_CONCURRENCY = 3
#: Seconds that running handlers have to end when the history does.
_DRAIN = 20.0
#: For how many seconds a few handlers run, so that their claims are renewed; and the longest one of all others.
_LONG, _SHORT = 5.0, 1.2
#: Seconds between two looks of a handler whether it is to stop.
_LOOK = 0.05
#: How many characters some handlers return: too many for what stands before some stores.
_LARGE = 300_000


def conduct(
    board: JobBoard, diary: Diary, process: str, _seed: int, _rate: float, stop: Stop | threading.Event
) -> None:
    """Run a conductor until told to stop, and write down whether it stopped in good order."""
    expiry = EXPIRIES[process.partition(".")[0]]
    write_down(board, diary, expiry)
    conductor = Conductor(process, board, handlers_of(diary), concurrency=_CONCURRENCY, expiry=expiry)
    conductor.start()
    # Python runs a signal's handler in this thread only, and a signal that another thread gets does not wake it.
    while not stop.wait(0.5):
        pass
    diary.call("stop", {}, lambda: conductor.stop(timeout=_DRAIN))


def handlers_of(diary: Diary) -> Handlers:
    """Return handlers that run, and end, as the numbers of their jobs say; each run is written down."""

    def work(job: RunningJob) -> Any:
        number = int(job.details["n"])
        diary.call("run", {"uuid": job.uuid, "token": job.token}, lambda: _run(job, number))
        return _end_of(job, number)

    handlers = Handlers(max_attempts=5, backoff=Backoff(first=0.2, jitter=0.0))
    for name in CONDUCTED:
        handlers.add(name, work)
    return handlers


def _run(job: RunningJob, number: int) -> dict[str, Any]:
    """Be busy until the time is over, or the claim is, or its end is wished for; return which.

    ``slow``: seconds by which its looks came too late, since the machine is busy or the process was stopped.
    """
    pause, slow, now = threading.Event(), 0.0, time.monotonic()
    until = now + _seconds_of(number)
    while now < until and not (job.lost or job.cancelled):
        pause.wait(_LOOK)
        slow, now = slow + time.monotonic() - now - _LOOK, time.monotonic()
    return {"lost": job.lost, "cancelled": job.cancelled, "slow": slow}


def runs_long(number: int) -> bool:
    return number % 7 == 0


def _seconds_of(number: int) -> float:
    return _LONG if runs_long(number) else number % 11 / 10 * _SHORT


def _end_of(job: RunningJob, number: int) -> Any:
    ends = number % 10
    if ends == 0 and job.attempts < 3:
        raise ValueError("a handler that fails now and then")
    if ends == 1 and job.token % 2:
        return RunAgain(after=0.3)
    return "x" * _LARGE if ends == 2 else number
