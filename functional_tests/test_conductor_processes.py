"""Real conductor processes on a real SQLite file, killed and stopped at any moment."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from harnesses.diaries import whole_lines
from harnesses.stopping import stop_between_writes

from jobboard import ClaimLost, JobBoard, JobState, Posting
from jobboard.testing import eventually

pytest_plugins = ("harnesses.crew_fixtures",)

Start = Callable[..., subprocess.Popen[str]]
EXPIRY = 1.0


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    return tmp_path / "diary"


def lines_of(diary: Path) -> list[list[str]]:
    return [line.split(" ", 3) for line in whole_lines(diary)]


def pids_of(diary: Path) -> list[int]:
    """The worker, and the program that it has started."""
    return [int(text.split()[-1]) for line in lines_of(diary)[:1] for text in line[2:]]


def conductor(start: Start, uri: str, *options: str) -> subprocess.Popen[str]:
    return start(
        "--board", uri, "--name", "crew", "conductor", "harnesses.crew_work:handlers", "--expiry", str(EXPIRY),
        "--concurrency", "4", *options,
    )  # fmt: skip


def consumed_by_history(board: JobBoard, uuid: str) -> int:
    return [line.kind.value for line in board.get(uuid).history].count("CONSUMED")


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_conductors_killed_at_any_moment_lose_nothing_and_do_nothing_twice(
    start: Start, uri: str, board: JobBoard, diary: Path, executor: str
) -> None:
    jobs = board.post_many([Posting("step", details={"diary": str(diary), "seconds": 0.01}) for _ in range(400)])
    chance = random.Random(7)
    crew = [conductor(start, uri, "--executor", executor) for _ in range(2)]
    for _ in range(4):
        left = board.job_count
        eventually(lambda left=left: board.job_count < left - chance.randint(5, 40) or board.job_count == 0, 90)
        victim = crew.pop(0)
        victim.kill()
        crew.append(conductor(start, uri, "--executor", executor))
    eventually(lambda: board.job_count == 0, 60)
    ended = Counter(board.get(job.uuid).record.state for job in jobs)
    assert ended == {JobState.COMPLETE: 400}
    assert {consumed_by_history(board, job.uuid) for job in jobs} == {1}
    assert {line[0] for line in lines_of(diary) if line[3] == "ended"} == {job.uuid for job in jobs}


def test_a_stopped_conductor_that_wakes_up_late_ends_nothing(
    start: Start, uri: str, board: JobBoard, diary: Path, tmp_path: Path
) -> None:
    slow, gate = conductor(start, uri), tmp_path / "gate"
    job = board.post("gate", details={"diary": str(diary), "gate": str(gate)})
    eventually(lambda: lines_of(diary), 60)
    stop_between_writes(slow.pid, uri)
    late_token = board.get(job.uuid).record.token
    late_owner = board.get(job.uuid).record.owner or ""
    eventually(lambda: board.get(job.uuid).record.state is JobState.UNCLAIMED)
    quick = conductor(start, uri)
    gate.touch()
    assert job.wait(60)
    winner = board.get(job.uuid).record
    slow.send_signal(signal.SIGCONT)
    slow.send_signal(signal.SIGTERM)
    assert slow.wait(60) == 0
    after = board.get(job.uuid).record
    assert (after.token, after.owner, after.result) == (winner.token, winner.owner, quick.pid)
    assert winner.token > late_token
    assert consumed_by_history(board, job.uuid) == 1
    with pytest.raises(ClaimLost):
        board.consume(job.uuid, late_owner, token=late_token)


def test_poison_stops_after_its_attempts(start: Start, uri: str, board: JobBoard, diary: Path) -> None:
    poison = board.post("poison", details={"diary": str(diary)}, max_attempts=3)
    for _ in range(3):
        victim = conductor(start, uri)
        eventually(lambda victim=victim: victim.poll() is not None, 90)
    healthy = board.post("step", details={"diary": str(diary)})
    conductor(start, uri)
    assert healthy.wait(60)
    eventually(lambda: board.get(poison.uuid).record.state is JobState.TRASHED, 60)
    assert board.get(poison.uuid).record.attempts == 3
    assert len([line for line in lines_of(diary) if line[0] == poison.uuid]) == 3


def test_the_process_executor_survives_poison(start: Start, uri: str, board: JobBoard, diary: Path) -> None:
    survivor = conductor(start, uri, "--executor", "process")
    poison = board.post("poison", details={"diary": str(diary)})
    eventually(lambda: board.get(poison.uuid).record.state is JobState.TRASHED, 90)
    assert "SIGKILL" in (board.get(poison.uuid).record.reason or "")
    assert survivor.poll() is None


def test_a_second_owner_resumes_at_the_checkpoint(start: Start, uri: str, board: JobBoard, diary: Path) -> None:
    first = conductor(start, uri)
    job = board.post("resume", details={"diary": str(diary), "seconds": 5})
    eventually(lambda: len(lines_of(diary)) == 2, 60)
    first.kill()
    second = conductor(start, uri)
    assert job.wait(60)
    assert job.result == [first.pid] * 2 + [second.pid] * 3


def test_no_worker_process_outlives_its_conductor(start: Start, uri: str, board: JobBoard, diary: Path) -> None:
    import psutil

    parent = conductor(start, uri, "--executor", "process")
    board.post("step", details={"diary": str(diary), "seconds": 30})
    eventually(lambda: lines_of(diary), 60)
    children = psutil.Process(parent.pid).children(recursive=True)
    assert children
    parent.kill()
    eventually(lambda: not any(child.is_running() and child.status() != "zombie" for child in children), 20)


def test_not_even_a_handler_that_holds_the_interpreter_outlives_its_conductor(
    start: Start, uri: str, board: JobBoard, diary: Path
) -> None:
    import psutil

    parent = conductor(start, uri, "--executor", "process")
    board.post("hold the interpreter", details={"diary": str(diary)})
    worker, program = map(psutil.Process, eventually(lambda: pids_of(diary), 60))
    processes = [*psutil.Process(parent.pid).children(recursive=True)]
    assert {worker, program} <= set(processes)
    parent.kill()
    eventually(lambda: not any(each.is_running() and each.status() != "zombie" for each in processes), 20)


def test_sigterm_drains_and_a_second_signal_ends_at_once(start: Start, uri: str, board: JobBoard, diary: Path) -> None:
    polite = conductor(start, uri, "--drain", "20")
    short = board.post("step", details={"diary": str(diary), "seconds": 0.3})
    eventually(lambda: lines_of(diary), 60)
    polite.send_signal(signal.SIGTERM)
    assert polite.wait(60) == 0
    assert short.state is JobState.COMPLETE
    hasty = conductor(start, uri, "--drain", "60")
    board.post("step", details={"diary": str(diary), "seconds": 60})
    eventually(lambda: len(lines_of(diary)) == 3, 60)
    # Two signals at once would be one.
    eventually(lambda: hasty.send_signal(signal.SIGTERM) or hasty.poll() is not None, every=0.3)  # type: ignore[func-returns-value]
    assert hasty.returncode == 128 + signal.SIGTERM


def test_a_drain_that_takes_too_long_gives_the_job_back(start: Start, uri: str, board: JobBoard, diary: Path) -> None:
    hasty = conductor(start, uri, "--drain", "0.2")
    job = board.post("step", details={"diary": str(diary), "seconds": 30})
    eventually(lambda: lines_of(diary), 60)
    hasty.send_signal(signal.SIGINT)
    hasty.wait(60)
    record = board.get(job.uuid).record
    assert (record.state, record.attempts) == (JobState.UNCLAIMED, 0)


def test_a_sighup_drains_and_is_never_a_second_signal(start: Start, uri: str, board: JobBoard, diary: Path) -> None:
    process = conductor(start, uri)
    job = board.post("step", details={"diary": str(diary), "seconds": 0.5})
    eventually(lambda: lines_of(diary), 60)
    for _ in range(3):
        process.send_signal(signal.SIGHUP)
        threading.Event().wait(0.05)  # signals at once would be one
    assert process.wait(60) == 0
    assert job.state is JobState.COMPLETE


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_a_sigusr1_prints_what_each_slot_does(
    start: Start, uri: str, board: JobBoard, diary: Path, executor: str
) -> None:
    process = conductor(start, uri, "--executor", executor)
    job = board.post("step", details={"diary": str(diary), "seconds": 2.0})
    eventually(lambda: lines_of(diary), 60)

    def ask_until_done() -> bool:
        process.send_signal(signal.SIGUSR1)
        # It reads what was printed: more than a pipe holds would block the conductor.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=0.2)
        return job.wait(0)

    # More than once: the handler may write its diary before its conductor knows that it has begun.
    eventually(ask_until_done, 60)
    process.send_signal(signal.SIGTERM)
    text = process.communicate(timeout=60)[0]
    assert process.returncode == 0
    assert f"'step' {job.uuid} attempt 1 token {job.token or board.get(job.uuid).record.token}: begun" in text
    assert "in step" in text
    assert "jobboard-renewer" in text
    assert str(diary) not in text


def test_a_conductor_with_too_many_stuck_slots_exits_to_be_started_anew(
    start: Start, uri: str, board: JobBoard, diary: Path
) -> None:
    process = conductor(start, uri, "--max-stuck", "0", "--on-stuck", "exit")
    job = board.post("hang", details={"diary": str(diary)})
    assert process.wait(60) == 75
    assert board.get(job.uuid).record.state is JobState.TRASHED
