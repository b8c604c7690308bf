"""Handlers of the conductor processes in the functional tests; what they did is written down outside the board."""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from pathlib import Path

from jobboard import Backoff, Handlers, RunningJob
from jobboard.testing import eventually

handlers = Handlers()
QUICK = Backoff(first=0.01, factor=1, jitter=0)


def write_down(job: RunningJob, what: str) -> None:
    """Append one line, which O_APPEND keeps whole."""
    line = f"{job.uuid} {job.token} {os.getpid()} {what}\n"
    descriptor = os.open(job.details["diary"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@handlers.handler("step", max_attempts=50, backoff=QUICK)
def step(job: RunningJob) -> int:
    write_down(job, "began")
    time.sleep(job.details.get("seconds", 0.0))
    write_down(job, "lost" if job.lost else "ended")
    return os.getpid()


@handlers.handler("gate", max_attempts=50, backoff=QUICK)
def gate(job: RunningJob) -> int:
    """Run until there is a file."""
    write_down(job, "began")
    eventually(Path(job.details["gate"]).exists, 60)
    return os.getpid()


@handlers.handler("poison", max_attempts=3, backoff=QUICK)
def poison(job: RunningJob) -> None:
    write_down(job, "began")
    os.kill(os.getpid(), 9)


@handlers.handler("hang", max_attempts=1, timeout=0.1)
def hang(job: RunningJob) -> None:
    write_down(job, "began")
    time.sleep(60)


@handlers.handler("hold the interpreter", max_attempts=50, backoff=QUICK)
def hold_the_interpreter(job: RunningJob) -> None:
    """In C, letting go of the interpreter for nobody."""
    child = subprocess.Popen(["sleep", "60"])
    write_down(job, f"began {child.pid}")
    ctypes.PyDLL(None).sleep(60)


@handlers.handler("resume", max_attempts=50, backoff=QUICK)
def resume(job: RunningJob) -> list[int]:
    """Each step is written to the checkpoint; a second owner goes on where the first one died."""
    done = list(job.checkpoint or [])
    while len(done) < 5:
        done.append(os.getpid())
        job.checkpoint_state(done)
        write_down(job, f"step {len(done)}")
        if len(done) == 2:
            time.sleep(job.details["seconds"])
    return done
