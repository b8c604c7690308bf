"""Handlers with processes of their own, and what signals do to those."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor

from jobboard import Handlers, RunningJob
from jobboard.testing import eventually

handlers = Handlers()

NUMBERS = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
#: The exit status of a child that Ctrl-C has ended.
INTERRUPTED = 130


@handlers.handler("use processes", max_attempts=1)
def use_processes(job: RunningJob) -> list[object]:
    context = multiprocessing.get_context(job.details["method"])
    with context.Pool(2) as pool:
        mapped = pool.map(abs, [-1, -2, -3])
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        submitted = list(executor.map(abs, [-4, -5, -6]))
    process = context.Process(target=os._exit, args=(7,))
    process.start()
    process.join()
    return [mapped, submitted, process.exitcode]


@handlers.handler("leave a process", max_attempts=1)
def leave_a_process(_job: RunningJob) -> int:
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    process.start()
    assert process.pid is not None
    return process.pid


@handlers.handler("end forked children", max_attempts=1)
def end_forked_children(_job: RunningJob) -> list[int]:
    return how_forked_children_end()


def how_forked_children_end() -> list[int]:
    """Return the exit codes of children that this thread, and then another one, forks, each ended by another signal."""
    codes = [_ended_by(number) for number in NUMBERS]
    thread = threading.Thread(target=lambda: codes.extend(_ended_by(number) for number in NUMBERS))
    thread.start()
    thread.join()
    return codes


#: What that returns if signals do to children what they do by default.
BY_DEFAULT = [-signal.SIGTERM, -signal.SIGHUP, INTERRUPTED] * 2


def _ended_by(number: int) -> int:
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        _wait_for_the_end(writer)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    os.kill(pid, number)
    statuses: list[int] = []

    def has_ended() -> bool:
        gone, status = os.waitpid(pid, os.WNOHANG)
        statuses.append(status)
        return gone == pid

    try:
        eventually(has_ended, 10)
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return 0
    return os.waitstatus_to_exitcode(statuses[-1])


def _wait_for_the_end(writer: int) -> None:
    try:
        os.write(writer, b"1")
        time.sleep(60)
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
    finally:
        os._exit(1)
