"""Lifespans in real conductor processes, which are stopped by signals, killed, replaced and forked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from harnesses import leased_work

from jobboard import JobBoard
from jobboard.testing import eventually

pytest_plugins = ("harnesses.crew_fixtures",)
pytestmark = pytest.mark.turn_of("lifespans of processes")

Start = Callable[..., subprocess.Popen[str]]
Diary = Callable[[], list[list[str]]]


@pytest.fixture
def diary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Diary:
    path = tmp_path / "diary"
    path.touch()
    monkeypatch.setenv("LEASED_DIARY", str(path))
    return lambda: [line.split() for line in path.read_text().splitlines()]


def conductor(start: Start, uri: str, *options: str, handlers: str = "handlers") -> subprocess.Popen[str]:
    place = f"harnesses.leased_work:{handlers}"
    return start("--board", uri, "--name", "crew", "conductor", place, "--expiry", "1", *options)


def words_of(diary: Diary, pid: str) -> list[str]:
    return [word for word, its in diary() if its == pid]


@pytest.mark.parametrize(
    ("executor", "handlers"), [("thread", "handlers"), ("process", "handlers"), ("asyncio", "async_handlers")]
)
def test_a_signal_lets_the_last_handler_end_and_then_closes(
    start: Start, uri: str, board: JobBoard, diary: Diary, executor: str, handlers: str
) -> None:
    process = conductor(start, uri, "--executor", executor, handlers=handlers)
    job = board.post("last", {"seconds": 1.0})
    eventually(lambda: len(diary()) == 2, 60)
    process.send_signal(signal.SIGTERM)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 0, text
    assert [word for word, _ in diary()] == ["open", "begin", "end", "closed"]
    assert len({pid for _, pid in diary()}) == 1
    assert job.result == "lease"


def test_a_killed_conductor_closes_nothing_and_the_next_one_makes_it_anew(
    start: Start, uri: str, board: JobBoard, diary: Diary
) -> None:
    job = board.post("last", {"seconds": 1.5})
    killed = conductor(start, uri, "--executor", "process")
    eventually(lambda: len(diary()) == 2, 60)
    killed.kill()
    following = conductor(start, uri, "--executor", "process")
    assert job.wait(60)
    following.send_signal(signal.SIGTERM)
    assert following.wait(60) == 0
    first, second = dict.fromkeys(pid for _, pid in diary())
    assert words_of(diary, first) == ["open", "begin"]
    assert words_of(diary, second) == ["open", "begin", "end", "closed"]


def test_each_process_that_replaces_another_has_its_own(start: Start, uri: str, board: JobBoard, diary: Diary) -> None:
    crew = conductor(start, uri, "--processes", "2", "--max-jobs", "2")
    jobs = [board.post("last", {"seconds": 0.05}) for _ in range(8)]
    assert all(job.wait(60) for job in jobs)
    eventually(lambda: len({pid for _, pid in diary()}) > 2, 60)
    crew.send_signal(signal.SIGTERM)
    assert crew.wait(60) == 0
    pids = list(dict.fromkeys(pid for _, pid in diary()))
    assert str(crew.pid) not in pids
    for pid in pids:
        words = words_of(diary, pid)
        assert (words[0], words[-1], words.count("open")) == ("open", "closed", 1)


def test_an_error_at_the_start_is_one_line_and_a_status(start: Start, uri: str, board: JobBoard, diary: Diary) -> None:
    job = board.post("last", {"seconds": 0})
    process = conductor(start, uri, handlers="broken")
    [line] = process.communicate(timeout=60)[0].splitlines()
    assert process.returncode == 1, line
    assert "the lifespan harnesses.leased_work.lease_of_nothing failed: " in line
    assert f"{leased_work.__file__}, line " in line
    assert line.endswith("OSError: the database is away")
    assert (job.attempts, diary(), board.entities()) == (0, [], [])


def test_an_error_at_the_end_is_logged_and_a_status(start: Start, uri: str, board: JobBoard, diary: Diary) -> None:
    process = conductor(start, uri, handlers="unclosed")
    assert board.post("last", {"seconds": 0}).wait(60)
    process.send_signal(signal.SIGTERM)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 1, text
    assert "resources of handlers could not be closed: the lifespan harnesses.leased_work.lease_for_ever" in text
    assert text.splitlines()[-1].endswith("OSError: the database does not answer")


def test_a_child_that_its_program_forks_closes_nothing(diary: Diary) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-m", "harnesses.leased_work"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert [word for word, _ in diary()] == ["open", "begin", "end", "closed"]
    assert len({pid for _, pid in diary()}) == 1
