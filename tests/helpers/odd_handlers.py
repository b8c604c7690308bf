"""Every way in which a handler can end, hang, fork, raise, or change what others stand on."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import gc
import locale
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from helpers.odd_values import ERRORS, RESULTS
from jobboard import Handlers, RunningJob

EVERYWHERE = ("thread", "process", "asyncio")
#: What ends its process, which only a worker process may.
WORKERS = ("process",)

handlers = Handlers()
#: Where each one is run.
places: dict[str, tuple[str, ...]] = {}
#: What those wait for who never end.
gate = threading.Event()


def odd(
    where: tuple[str, ...] = EVERYWHERE, timeout: float = 20.0, name: str | None = None
) -> Callable[[Callable[[RunningJob], Any]], Callable[[RunningJob], Any]]:
    def register(function: Callable[[RunningJob], Any]) -> Callable[[RunningJob], Any]:
        known_as = name or function.__name__
        places[known_as] = where
        handlers.add(known_as, function, max_attempts=1, timeout=timeout)
        return function

    return register


#: For those who never end.
hanging = functools.partial(odd, timeout=0.2)


# -- what they raise and return: plain functions with an argument would not be importable by a worker, hence details ---


@odd(name="raise")
def raise_it(job: RunningJob) -> None:
    raise ERRORS[job.details["what"]]()


@odd(name="raise later")
async def raise_it_later(job: RunningJob) -> None:
    await asyncio.sleep(0)
    raise ERRORS[job.details["what"]]()


@odd(name="return")
def return_it(job: RunningJob) -> object:
    return RESULTS[job.details["what"]]()


@odd()
def return_itself(_job: RunningJob) -> object:
    result: list[object] = []
    result.append(result)
    return result


@odd()
def return_a_coroutine(_job: RunningJob) -> Coroutine[Any, Any, None]:
    return asyncio.sleep(0)


@odd()
def recurse_for_ever(job: RunningJob) -> object:
    return recurse_for_ever(job)


@odd()
def want_all_memory(_job: RunningJob) -> object:
    return bytearray(2**62)


@odd()
def chain_its_error_to_itself(_job: RunningJob) -> None:
    error, cause = ValueError("odd"), KeyError("odd")
    cause.__cause__ = error
    raise error from cause


# -- what never ends -----------------------------------------------------------------------------------------------


@hanging()
def wait_for_ever(_job: RunningJob) -> None:
    gate.wait(60)


@hanging()
def spin_for_ever(_job: RunningJob) -> None:
    while not gate.is_set():
        time.sleep(0)


@hanging()
def swallow_everything(_job: RunningJob) -> None:
    while not gate.is_set():
        try:
            gate.wait(0.01)
        except BaseException:
            pass


@hanging()
async def await_for_ever(_job: RunningJob) -> None:
    while not gate.is_set():
        await asyncio.sleep(0.01)


@hanging()
async def swallow_every_cancel(_job: RunningJob) -> None:
    while not gate.is_set():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            pass


@hanging()
async def block_the_loop(_job: RunningJob) -> None:
    gate.wait(60)


@hanging()
async def await_a_thread_for_ever(_job: RunningJob) -> None:
    await asyncio.to_thread(gate.wait, 60)


@odd()
def hold_the_interpreter(_job: RunningJob) -> None:
    ctypes.PyDLL(None).usleep(100_000)


# -- forks, programs and threads -----------------------------------------------------------------------------------


@odd()
def fork_and_return(_job: RunningJob) -> int:
    return os.fork()


@odd()
def fork_and_raise(_job: RunningJob) -> None:
    os.fork()
    raise ValueError("twice")


@odd()
def fork_and_exit(_job: RunningJob) -> None:
    if not os.fork():
        sys.exit(3)


@odd()
def fork_and_leave_a_child(_job: RunningJob) -> None:
    if not os.fork():
        time.sleep(1)
        os._exit(0)


@odd()
async def fork_on_a_loop(_job: RunningJob) -> None:
    os.fork()
    await asyncio.sleep(0.01)


@odd()
def leave_a_program(_job: RunningJob) -> None:
    subprocess.Popen(["sleep", "1"])


@odd()
def leave_threads(_job: RunningJob) -> None:
    for is_daemon in (False, True):
        threading.Thread(target=time.sleep, args=(0.5,), daemon=is_daemon).start()


@odd()
def exit_in_a_thread(_job: RunningJob) -> None:
    thread = threading.Thread(target=sys.exit, args=(3,))
    thread.start()
    thread.join()


@odd()
def act_too_late(job: RunningJob) -> None:
    def act() -> None:
        time.sleep(0.1)
        for late in (lambda: job.checkpoint_state("late"), lambda: job.progress(1)):
            try:
                late()
            except Exception:
                pass

    threading.Thread(target=act, daemon=True).start()


# -- ends of processes ---------------------------------------------------------------------------------------------


@odd(WORKERS)
def exit_at_once(_job: RunningJob) -> None:
    os._exit(0)


@odd(WORKERS)
def read_no_memory(_job: RunningJob) -> None:
    ctypes.string_at(0)


@odd(WORKERS)
def kill_itself(_job: RunningJob) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@hanging(WORKERS)
def stop_itself(_job: RunningJob) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


@odd(WORKERS)
def die_before_its_child(_job: RunningJob) -> None:
    if not os.fork():
        time.sleep(60)
    os._exit(7)


@odd(WORKERS)
def ask_itself_to_end(_job: RunningJob) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(os.getpid(), number)


@odd(WORKERS)
def take_over_signals(_job: RunningJob) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)


@odd(WORKERS)
def close_everything(_job: RunningJob) -> None:
    os.closerange(0, 100)


@odd(WORKERS)
def close_standard_output(_job: RunningJob) -> None:
    os.close(1)
    sys.stdout = None  # type: ignore[assignment]
    print("to nobody")  # noqa: T201


# -- what others stand on ------------------------------------------------------------------------------------------


@odd()
def change_its_surroundings(_job: RunningJob) -> None:
    os.chdir("/")
    os.umask(0o777)
    locale.setlocale(locale.LC_ALL, "C")
    gc.disable()
    sys.setswitchinterval(0.05)


@odd()
def lower_the_recursion_limit(_job: RunningJob) -> None:
    sys.setrecursionlimit(150)


@odd()
def log_through_a_broken_handler(_job: RunningJob) -> None:
    class BrokenHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ValueError("no log")

    handler = BrokenHandler()
    logging.getLogger("jobboard").addHandler(handler)
    threading.Timer(0.5, logging.getLogger("jobboard").removeHandler, [handler]).start()


@odd()
def backtrack(_job: RunningJob) -> None:
    re.match(r"(a+)+$", "a" * 20 + "b")


# -- loops ---------------------------------------------------------------------------------------------------------


@odd()
async def exit_in_a_subtask(_job: RunningJob) -> None:
    async def leave() -> None:
        sys.exit(3)

    await asyncio.create_task(leave())


@odd()
async def exit_in_a_subtask_that_nobody_awaits(_job: RunningJob) -> None:
    async def leave() -> None:
        raise KeyboardInterrupt

    leaving = asyncio.create_task(leave())
    await asyncio.wait([leaving])


@hanging()
async def exit_in_a_callback(_job: RunningJob) -> None:
    asyncio.get_running_loop().call_soon(sys.exit, 3)
    await asyncio.sleep(60)


@odd()
async def stop_the_loop(_job: RunningJob) -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0.01)


@odd()
async def close_the_loop(_job: RunningJob) -> None:
    asyncio.get_running_loop().close()


@odd()
async def run_a_loop_in_the_loop(_job: RunningJob) -> None:
    asyncio.run(asyncio.sleep(0))


@odd()
async def forget_the_loop(_job: RunningJob) -> None:
    asyncio.set_event_loop(None)
    asyncio.get_running_loop().set_exception_handler(lambda *_: sys.exit(3))


@odd()
async def leave_tasks(_job: RunningJob) -> None:
    async def fail() -> None:
        raise ValueError("nobody looks")

    for left in (fail(), asyncio.sleep(60)):
        asyncio.get_running_loop().create_task(left)


@odd()
async def leave_a_generator_open(_job: RunningJob) -> None:
    async def endless() -> Any:
        try:
            while True:
                yield 1
        finally:
            await asyncio.sleep(0)

    async for _ in endless():
        return


@odd()
async def cancel_itself(_job: RunningJob) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(60)


@odd()
def echo(job: RunningJob) -> object:
    return job.details


@odd()
async def echo_later(job: RunningJob) -> object:
    await asyncio.sleep(0)
    return job.details


def postings(executor: str) -> Iterator[tuple[str, str, str | None]]:
    """Return all there is to run: what it is called, the job's name, and what it raises or returns."""
    for name, where in places.items():
        values = ERRORS if name.startswith("raise") else RESULTS if name == "return" else None
        if values is not None:
            yield from ((f"{name} {what}", name, what) for what in values)
        elif executor in where:
            yield name, name, None
