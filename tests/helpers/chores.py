"""More handlers that worker processes can import, each for a fault of its own."""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from jobboard import Backoff, Handlers, InvalidPosting, RunningJob

QUICK = Backoff(first=0.01, factor=1, jitter=0)
handlers = Handlers()


@handlers.handler("pid")
def pid(_job: RunningJob) -> int:
    return os.getpid()


@handlers.handler("start a child", backoff=QUICK)
def start_a_child(job: RunningJob) -> None:
    """Hangs in a program that it started, as ffmpeg might."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    job.checkpoint_state(child.pid)
    child.wait()


@handlers.handler("signals of a child")
def signals_of_a_child(_job: RunningJob) -> str:
    """What a program that a handler starts ignores."""
    code = "import signal; print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@handlers.handler("until killed once", backoff=QUICK)
def until_killed_once(job: RunningJob) -> str:
    while job.attempts == 1:
        time.sleep(0.005)
    return "the second time"


@handlers.handler("endure")
def endure(job: RunningJob) -> str:
    """Go on until there is a file, whatever signals come."""
    job.checkpoint_state(os.getpid())
    while not os.path.exists(job.details["until"]):
        time.sleep(0.005)
    return "endured"


@handlers.handler("leave a note")
def leave_a_note(job: RunningJob) -> None:
    path = Path(job.details["path"])
    atexit.register(path.write_text, "left in good order")


@handlers.handler("odd results")
def odd_results(_job: RunningJob) -> object:
    return lambda: "no other process can have this"


@handlers.handler("raw results")
def raw_results(_job: RunningJob) -> object:
    return {"raw": memoryview(b"\xff")}


@handlers.handler("odd checkpoints")
def odd_checkpoints(job: RunningJob) -> str:
    try:
        job.checkpoint_state({"call": lambda: None})
    except InvalidPosting as error:
        return error.path or ""
    return "it travelled"


@handlers.handler("large checkpoints", max_attempts=3)
def large_checkpoints(job: RunningJob) -> None:
    job.checkpoint_state(bytes(600_000))


@handlers.handler("exit", max_attempts=1)
def exit_the_interpreter(_job: RunningJob) -> None:
    sys.exit(3)


@handlers.handler("kill the other worker")
def kill_the_other_worker(job: RunningJob) -> None:
    os.kill(job.details["pid"], signal.SIGKILL)


@handlers.handler("brief", timeout=0.5, max_attempts=1)
def brief(_job: RunningJob) -> str:
    return "in time"


@handlers.handler("ignore")
def ignore(_job: RunningJob) -> None:
    threading.Event().wait(60)


@handlers.handler("die before a child", max_attempts=1)
def die_before_a_child(job: RunningJob) -> None:
    libc = ctypes.PyDLL(None)
    child = os.fork() if job.details["fork"] == "in Python" else libc.fork()
    if not child:
        libc.sleep(60)
        os._exit(0)
    job.checkpoint_state(child)
    os._exit(7)


@handlers.handler("leave a child behind")
def leave_a_child_behind(_job: RunningJob) -> int:
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    return child


@handlers.handler("fork", max_attempts=1)
def fork(job: RunningJob) -> int:
    """The child ends later, when the worker is at its next job."""
    child = os.fork()
    if child:
        return child
    while not os.path.exists(job.details["until"] + ".go"):
        time.sleep(0.005)
    if job.details["end"] == "raise":
        raise ValueError("of a child")
    if job.details["end"] == "exit":
        sys.exit(3)
    return 0


@handlers.handler("act in a child")
def act_in_a_child(job: RunningJob) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            job.checkpoint_state("of a child")
            job.progress(1)
        except BaseException as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return os.read(reading, 1000).decode()


@handlers.handler("leave a thread behind")
def leave_a_thread_behind(job: RunningJob) -> None:
    """Which acts while the next job runs, that waits for its note."""
    worker = job._context._worker  # type: ignore[attr-defined]

    def act() -> None:
        while not worker._current or job._context in worker._current:
            time.sleep(0.005)
        try:
            job.checkpoint_state("of a job that is over")
            text = "it went through"
        except Exception as error:
            text = type(error).__name__
        Path(job.details["note"]).write_text(text)

    threading.Thread(target=act, daemon=True).start()


@handlers.handler("close the pipe", max_attempts=1)
def close_the_pipe(_job: RunningJob) -> None:
    os.closerange(3, 100)
    for _ in range(10):
        os.open("/dev/null", os.O_RDWR)


@handlers.handler("limit a request", max_attempts=1)
def limit_a_request(job: RunningJob) -> list[object]:
    """Give up a request by a signal, as libraries that limit the time of calls do, and make others."""

    def interrupt(_number: int, _frame: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        job.checkpoint_state("late")
    except TimeoutError:
        Path(job.details["given up"]).touch()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return [job.step("first", lambda: 1), job.step("second", lambda: 2)]
