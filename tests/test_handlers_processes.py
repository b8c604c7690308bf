"""Handlers may have processes of their own, which end as others do, and with their worker at the latest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from helpers import families
from helpers.conducting import conducting
from helpers.forks import FORKS

from jobboard import JobBoard, fetch
from jobboard.conductor import stop_on_signals
from jobboard.testing import eventually

pytestmark = FORKS

#: A conductor that does not stop: its program comes to its end, or is killed.
PROGRAM = """
import sys, time
from helpers import families
from jobboard import Conductor, fetch
if __name__ == "__main__":
    board = fetch("work", sys.argv[1])
    board.connect()
    Conductor("c", board, families.handlers, executor="process").start()
    print(board.post("leave a process").get_result(60), flush=True)
    time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with fetch("work", f"memory://{uuid.uuid4().hex}") as board:
        yield board


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("executor", ["thread", "process"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_handlers_use_multiprocessing_and_pools_of_processes(board: JobBoard, executor: str, method: str) -> None:
    with conducting(board, families.handlers, executor):
        for _ in range(2):
            job = board.post("use processes", details={"method": method})
            assert job.get_result(60) == [[1, 2, 3], [4, 5, 6], 7]


def test_signals_end_what_a_handler_has_forked_in_a_worker(board: JobBoard) -> None:
    with conducting(board, families.handlers, "process"):
        assert board.post("end forked children").get_result(60) == families.BY_DEFAULT


@pytest.fixture
def default_hangup() -> Iterator[None]:
    """A run that was started by nohup ignores SIGHUP, and so would what it forks."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("default_hangup")
def test_signals_end_what_a_handler_has_forked_in_the_conductors_own_process(board: JobBoard) -> None:
    stops: list[int] = []
    with stop_on_signals(lambda: stops.append(os.getpid())), conducting(board, families.handlers, "thread"):
        assert board.post("end forked children").get_result(60) == families.BY_DEFAULT
        # Here they still mean the conductor.
        os.kill(os.getpid(), signal.SIGTERM)
        eventually(lambda: stops == [os.getpid()])


#: Signals children before anything else happens in them.
SIGNALLED_AT_ONCE = """
import os, signal
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), number))
from jobboard.conductor import stop_on_signals
signal.signal(signal.SIGHUP, signal.SIG_DFL)
for number in (signal.SIGTERM, signal.SIGHUP):
    with stop_on_signals(print):
        if not (pid := os.fork()):
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_signal_ends_a_child_that_has_just_been_forked() -> None:
    """``multiprocessing.Pool`` ends its processes so, and waits for them without end."""
    told = subprocess.check_output([sys.executable, "-c", SIGNALLED_AT_ONCE], text=True, timeout=60)
    assert told.split() == ["-15", "-1"]


#: Gets as many signals to stop as GNU ``timeout`` sends.
SIGNALLED_TWICE = """
import os, signal, threading
from jobboard import stop_signals
from jobboard.conductor import stop_on_signals
stop_signals.COPIES_WITHIN = 60
stopped = threading.Event()
with stop_on_signals(stopped.set):
    for number in [signal.SIGTERM] * 2:
        os.kill(os.getpid(), number)
    print(stopped.wait(60), flush=True)
    os.kill(os.getpid(), signal.SIGINT)
"""


def test_a_copy_of_the_first_signal_is_no_second_one() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED_TWICE], capture_output=True, text=True, timeout=90, check=False
    )
    assert (done.stdout, done.returncode) == ("True\n", 128 + signal.SIGINT)


@pytest.mark.parametrize("end", ["its program's end", "a kill"])
def test_what_handlers_started_ends_with_the_conductor(tmp_path: Path, end: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    seconds = "0" if end == "its program's end" else "600"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    with subprocess.Popen(
        [sys.executable, program, f"sqlite:///{tmp_path}/jobs.db", seconds],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        left = int(process.stdout.readline())
        workers = (
            [child.pid for child in psutil.Process(process.pid).children(recursive=True)] if seconds != "0" else []
        )
        if end == "a kill":
            process.kill()
        process.wait(60)
    eventually(lambda: all(is_gone(pid) for pid in [left, *workers]), 30)
