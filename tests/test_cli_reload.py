"""``jobboard conductor --reload``: the process starts anew when the code of its handlers changes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.command_line import process

from jobboard import JobBoard, JobState, fetch
from jobboard.testing import eventually

_MODULE = """
from jobboard import Handlers
import parts
handlers = Handlers()
@handlers.lifespan
def lease():
    with open("diary", "a") as diary:
        diary.write("open ")
    yield
    with open("diary", "a") as diary:
        diary.write("closed ")
@handlers.handler("answer")
def answer(job):
    return parts.answer(job)
"""
_HOLD = """
import time
def answer(job):
    while not job.lost:
        time.sleep(0.005)
"""


@pytest.fixture
def board(tmp_path: Path) -> Iterator[JobBoard]:
    with fetch("jobs", f"sqlite:///{tmp_path}/jobs.db?synchronous=OFF") as board:
        yield board


def write(file: Path, text: str) -> None:
    """Replace a file as editors do; two versions have different sizes, as Python's cache sees only seconds."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def test_it_starts_anew_when_its_code_changes(board: JobBoard, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    write(folder / "mine.py", _MODULE)
    write(folder / "parts.py", _HOLD)
    command = [
        sys.executable,
        "-m",
        "jobboard",
        "--board",
        f"sqlite:///{tmp_path}/jobs.db",
        "conductor",
        "mine:handlers",
    ]
    conductor = subprocess.Popen(
        [*command, "--reload", "--drain", "0.1"], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        job = board.post("answer")
        eventually(lambda: job.state is JobState.CLAIMED, 60)
        # Its file is watched from the moment on that the conductor says that it works.
        assert conductor.stdout is not None
        assert "works on board" in conductor.stdout.readline()
        write(folder / "parts.py", "def answer(job):\n    return [job.attempts, 'new']\n")
        assert job.get_result(60) == [1, "new"]
        write(folder / "parts.py", "def answer(job) return 'broken'\n")
        assert conductor.stderr is not None
        assert any("waiting for a change" in line for line in conductor.stderr)
        assert board.entities() == []
        write(folder / "parts.py", "def answer(job):\n    return 'repaired'\n")
        assert board.post("answer").get_result(60) == "repaired"
        conductor.send_signal(signal.SIGTERM)
        conductor.communicate(timeout=60)
        assert (conductor.returncode, board.entities()) == (0, [])
        assert (folder / "diary").read_text().split() == ["open", "closed"] * 3
    finally:
        conductor.kill()
        conductor.communicate()


def test_a_program_that_imports_its_code_before_the_command_line_waits_for_repair_too(
    board: JobBoard, tmp_path: Path
) -> None:
    """As manage.py does in django.setup()."""
    folder = tmp_path / "work"
    folder.mkdir()
    write(folder / "mine.py", _MODULE)
    write(folder / "parts.py", "def answer(job):\n    return 'first'\n")
    write(folder / "manage.py", "import parts\nfrom jobboard.cli import main\nmain()\n")
    conductor = subprocess.Popen(
        [
            sys.executable,
            "manage.py",
            "--board",
            f"sqlite:///{tmp_path}/jobs.db",
            "conductor",
            "mine:handlers",
            "--reload",
        ],
        cwd=folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert conductor.stdout is not None
        assert conductor.stderr is not None
        assert "works on board" in conductor.stdout.readline()
        write(folder / "further.py", "def answer(job) return 'broken'\n")
        write(folder / "parts.py", "from further import answer\n")
        assert any("it can't start; waiting for a change" in line for line in conductor.stderr)
        write(folder / "further.py", "def answer(job):\n    return 'repaired'\n")
        assert board.post("answer").get_result(60) == "repaired"
        conductor.send_signal(signal.SIGTERM)
        conductor.communicate(timeout=60)
        assert conductor.returncode == 0
    finally:
        conductor.kill()
        conductor.communicate()


@pytest.mark.parametrize("option", ["--processes", "--max-jobs"])
def test_it_is_for_one_process(tmp_path: Path, option: str) -> None:
    done = process("conductor", "mine:handlers", "--reload", option, "2", cwd=tmp_path)
    assert (done.returncode, "--reload is for one process" in done.stderr) == (2, True)


def test_a_module_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = process("--board", f"sqlite:///{tmp_path}/jobs.db", "conductor", "mine:handlers", "--reload", cwd=tmp_path)
    assert (done.returncode, "there is no module 'mine'" in done.stderr) == (2, True)
