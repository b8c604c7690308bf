"""``jobboard conductor --processes``: started, watched, started again, drained and stopped as one."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from jobboard import Job, JobBoard, JobState
from jobboard.testing import eventually

pytest_plugins = ("harnesses.crew_fixtures",)

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def crew(start: Start, uri: str, board: JobBoard) -> subprocess.Popen[str]:
    """Two conductors that are at work."""
    process = conductors(start, uri, "--processes", "2")
    eventually(lambda: len(board.entities()) == 2, 60)
    return process


def conductors(
    start: Start, uri: str, *options: str, handlers: str = "harnesses.crew_work:handlers"
) -> subprocess.Popen[str]:
    return start("--board", uri, "--name", "crew", "conductor", handlers, *options, "--expiry", "1", "--drain", "30")


def post_step(board: JobBoard, tmp_path: Path, seconds: float) -> Job:
    """Post a job, and wait until it runs."""
    job = board.post("step", details={"diary": str(tmp_path / "diary"), "seconds": seconds})
    eventually(lambda: job.state is JobState.CLAIMED, 60)
    eventually((tmp_path / "diary").exists, 60)
    return job


def pids_of(board: JobBoard) -> set[int]:
    return {entity.metadata["pid"] for entity in board.entities() if entity.alive}


def test_one_that_is_killed_is_started_again_and_its_job_done(
    crew: subprocess.Popen[str], board: JobBoard, tmp_path: Path
) -> None:
    before = pids_of(board)
    job = post_step(board, tmp_path, 2.0)
    owner = next(entity for entity in board.entities() if entity.name == job.owner)
    psutil.Process(owner.metadata["pid"]).kill()
    assert job.wait(60)
    eventually(lambda: len(psutil.Process(crew.pid).children()) == 2, 60)
    eventually(lambda: len(pids_of(board) - before) == 1, 60)
    crew.send_signal(signal.SIGTERM)
    text = crew.communicate(timeout=90)[0]
    assert f"conductor process {owner.metadata['pid']} ended with signal 9; another one starts in 1 s" in text
    assert crew.returncode == 0


#: Processes that wait for their end, and are signalled when they no longer handle it.
_SIGNALLED_LAST = """
import os, signal
from jobboard.cli.supervising import Supervisor
child = Supervisor(2).run()
with child.stop_on_request(lambda: os.kill(os.getpid(), signal.SIGTERM), None):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    print("up", flush=True)
    signal.pause()
"""


def test_a_process_that_is_signalled_in_its_last_moment_has_ended_well() -> None:
    with subprocess.Popen([sys.executable, "-c", _SIGNALLED_LAST], stdout=subprocess.PIPE) as crew:
        assert crew.stdout is not None
        assert [crew.stdout.readline() for _ in range(2)] == [b"up\n"] * 2
        crew.send_signal(signal.SIGTERM)
        assert crew.wait(90) == 0


def test_a_service_manager_that_signals_every_process_drains_them(
    crew: subprocess.Popen[str], board: JobBoard, tmp_path: Path
) -> None:
    job = post_step(board, tmp_path, 1.0)
    for process in [psutil.Process(crew.pid), *psutil.Process(crew.pid).children()]:
        process.terminate()
    assert crew.wait(90) == 0
    assert job.state is JobState.COMPLETE
    assert board.entities() == []


def test_a_second_signal_ends_all_at_once(crew: subprocess.Popen[str], board: JobBoard, tmp_path: Path) -> None:
    post_step(board, tmp_path, 60)
    children = psutil.Process(crew.pid).children()
    # Two signals at once would be one.
    eventually(lambda: crew.send_signal(signal.SIGTERM) or crew.poll() is not None, every=0.3)  # type: ignore[func-returns-value]
    assert crew.returncode == 128 + signal.SIGTERM
    eventually(lambda: not any(child.is_running() for child in children))


def test_a_second_signal_ends_also_one_that_is_frozen(crew: subprocess.Popen[str]) -> None:
    children = psutil.Process(crew.pid).children()
    children[0].suspend()
    try:
        eventually(lambda: crew.send_signal(signal.SIGTERM) or crew.poll() is not None, 30, every=0.3)  # type: ignore[func-returns-value]
        assert crew.returncode == 128 + signal.SIGTERM
        eventually(lambda: not any(child.is_running() for child in children))
    finally:
        if children[0].is_running():
            # It would keep the pipe of its output open.
            children[0].kill()


def test_one_that_can_not_be_started_is_tried_again_and_the_others_go_on(
    crew: subprocess.Popen[str], board: JobBoard, tmp_path: Path
) -> None:
    killed, other = psutil.Process(crew.pid).children()
    limits = resource.prlimit(crew.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(crew.pid, resource.RLIMIT_NOFILE, (1, limits[1]))
    killed.kill()
    assert crew.stdout is not None
    told = iter(crew.stdout.readline, "")
    assert any("could not be started ([Errno 24] Too many open files); another one" in line for line in told)
    resource.prlimit(crew.pid, resource.RLIMIT_NOFILE, limits)
    eventually(lambda: len(psutil.Process(crew.pid).children()) == 2, 60)
    assert other.is_running()


def test_who_starts_it_may_ignore_the_ends_of_children(start: Start, uri: str, board: JobBoard) -> None:
    ignored = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        process = conductors(start, uri, "--processes", "2")
    finally:
        signal.signal(signal.SIGCHLD, ignored)
    eventually(lambda: len(board.entities()) == 2, 60)
    before = psutil.Process(process.pid).children()
    before[0].kill()
    eventually(lambda: len({*psutil.Process(process.pid).children()} - {*before}) == 1, 60)
    assert process.poll() is None


def test_none_outlives_the_process_above_them(crew: subprocess.Popen[str], board: JobBoard, tmp_path: Path) -> None:
    job = post_step(board, tmp_path, 0.5)
    children = psutil.Process(crew.pid).children()
    crew.kill()
    eventually(lambda: not any(child.is_running() for child in children), 30)
    assert job.state is JobState.COMPLETE, "it was drained"


def test_sigusr1_prints_the_slots_of_all(crew: subprocess.Popen[str], board: JobBoard, tmp_path: Path) -> None:
    job = post_step(board, tmp_path, 2.0)
    crew.send_signal(signal.SIGUSR1)
    assert job.wait(60)
    crew.send_signal(signal.SIGTERM)
    text = crew.communicate(timeout=90)[0]
    assert text.count("<Conductor ") == 2


def test_what_can_never_start_is_not_started_again(start: Start, uri: str) -> None:
    process = conductors(start, uri, "--processes", "2", handlers="nowhere.at.all:handlers")
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 2
    assert "there is no module 'nowhere'" in text
    assert "another one starts" not in text


def test_one_that_has_run_its_jobs_makes_room_for_a_new_process(
    start: Start, uri: str, board: JobBoard, tmp_path: Path
) -> None:
    process = conductors(start, uri, "--max-jobs", "1", "--with-scheduler")
    pids: list[int] = []
    for _ in range(3):
        # Until the one before has left, it may claim another job.
        eventually(lambda: len(board.entities()) == 2 and pids_of(board).isdisjoint(pids), 60)
        pids.append(board.post("step", details={"diary": str(tmp_path / "diary")}).get_result(60))
    assert len(set(pids)) == 3
    process.send_signal(signal.SIGTERM)
    text = process.communicate(timeout=90)[0]
    assert process.returncode == 0
    assert f"conductor process {pids[0]} has run its --max-jobs" in text
    assert "another one starts in" not in text
    assert board.entities() == []


def test_one_that_has_run_its_jobs_finishes_the_others_also_at_a_stop(
    start: Start, uri: str, board: JobBoard, tmp_path: Path
) -> None:
    process = conductors(start, uri, "--max-jobs", "1", "--concurrency", "2")
    eventually(lambda: len(board.entities()) == 1, 60)
    long = post_step(board, tmp_path, 3.0)
    assert board.post("step", details={"diary": str(tmp_path / "diary")}).wait(30)
    process.send_signal(signal.SIGTERM)
    assert process.wait(90) == 0
    assert long.state is JobState.COMPLETE
    assert long.record.attempts == 1


def test_one_that_has_run_its_jobs_when_all_are_told_to_stop_ends_well() -> None:
    ends_at_a_stop = """
import sys, threading
from jobboard.cli.supervising import EXIT_MAX_JOBS, Supervisor
child, told = Supervisor(1).run(), threading.Event()
with child.stop_on_request(told.set, None):
    print("works", flush=True)
    told.wait()
sys.exit(EXIT_MAX_JOBS)
"""
    process = subprocess.Popen([sys.executable, "-c", ends_at_a_stop], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "works\n"
    process.terminate()
    assert process.communicate(timeout=60)[0] == ""
    assert process.returncode == 0
