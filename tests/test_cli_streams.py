"""A conductor works on and ends well whatever handlers do to its standard streams, and also without any."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobboard import JobBoard, fetch
from jobboard.testing import eventually

WORK = """
import os, sys, warnings
from jobboard import Handlers
handlers = Handlers(max_attempts=1)

class Odd:
    def __getattr__(self, name):
        raise ValueError(name)

@handlers.handler("take")
def take(job):
    exec(job.details["code"])

@handlers.handler("fail")
def fail(job):
    raise ValueError("which is logged")
"""

CODES = [
    "sys.stdout.close()",
    "sys.stdout = None",
    "sys.stdout = object()",
    "sys.stdout = Odd()",
    "os.close(1)",
    "sys.stderr = object()",
    "sys.stderr.close()",
    "sys.stderr = None",
    "os.close(2)",
    "sys.stdout.close(); sys.stderr.close(); sys.stdin.close()",
]


@pytest.fixture
def board(tmp_path: Path) -> JobBoard:
    (tmp_path / "mine.py").write_text(WORK)
    return fetch("test", f"sqlite:///{tmp_path}/jobs.db")


def start(folder: Path, *options: str, without: str = "") -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "jobboard", "--board", f"sqlite:///{folder}/jobs.db", "--name", "test"]
    command += ["conductor", "mine:handlers", "--log-level", "debug", *options]
    shell = ["/bin/sh", "-c", f'exec "$@" {without}', "sh", *command]
    return subprocess.Popen(shell, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def end(conductor: subprocess.Popen[bytes]) -> tuple[int, str]:
    """End it as a service manager does; return its status, and what it said of faults."""
    conductor.send_signal(signal.SIGTERM)
    _, told = conductor.communicate(timeout=60)
    return conductor.returncode, "".join(line for line in told.decode().splitlines() if "is a bug" in line)


@pytest.mark.parametrize("code", CODES)
def test_what_a_handler_does_to_a_stream_is_no_fault(board: JobBoard, tmp_path: Path, code: str) -> None:
    with board, start(tmp_path) as conductor:
        try:
            job = board.post("take", details={"code": code})
            assert job.wait(60), job.last_error
            for _ in range(3):
                failed = board.post("fail")
                eventually(lambda failed=failed: failed.state.name == "TRASHED", 60)  # type: ignore[misc]
            assert end(conductor) == (0, "")
        finally:
            conductor.kill()


#: Says that it works only after its first job has begun, as on a machine that is busy.
LATE = """
import threading
from jobboard.cli import conducting
begun, say = threading.Event(), conducting._say_at_once
conducting._say_at_once = lambda *told: begun.wait(60) and say(*told)
"""


def test_a_stream_is_gone_before_the_conductor_has_said_that_it_works(board: JobBoard, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(WORK + LATE)
    with board, start(tmp_path) as conductor:
        try:
            code = "print('to nobody'); os.close(1); begun.set()"
            assert board.post("take", details={"code": code}).wait(60)
            assert board.post("take", details={"code": "pass"}).wait(60)
            assert end(conductor) == (0, "")
        finally:
            conductor.kill()


@pytest.mark.parametrize("options", [[], ["--processes", "2"]])
@pytest.mark.parametrize("without", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_conductor_needs_no_streams(board: JobBoard, tmp_path: Path, options: list[str], without: str) -> None:
    with board, start(tmp_path, *options, without=without) as conductor:
        try:
            assert board.post("take", details={"code": "print('to nobody')"}).wait(60)
            assert end(conductor) == (0, "")
        finally:
            conductor.kill()
