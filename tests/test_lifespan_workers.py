"""What a lifespan makes in worker processes: in each of them, also in those that replace others."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import leased
from helpers.conducting import until_begun
from helpers.memory_board import board

from jobboard import Conductor, JobBoard
from jobboard.errors import LifespanFailed
from jobboard.testing import eventually

__all__ = ["board"]


@pytest.fixture
def diary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[list[str]]]:
    """What the lifespan of the workers has written."""
    path = tmp_path / "diary"
    path.touch()
    monkeypatch.setenv("LEASED_DIARY", str(path))
    return lambda: [line.split() for line in path.read_text().splitlines()]


def test_each_worker_makes_its_own_and_closes_it(board: JobBoard, diary: Callable[[], list[list[str]]]) -> None:
    conductor = Conductor("test", board, leased.handlers, executor="process", concurrency=2)
    conductor.start()
    workers = {pid for word, pid in diary()}
    assert len(workers) == 2
    assert str(os.getpid()) not in workers
    assert str(board.post("pid").get_result(30)) in workers
    assert str(board.post("pids").get_result(30)) in workers
    # The one that replaces a dead worker has its own.
    assert board.post("die").get_result(30)
    eventually(lambda: len(diary()) == 3)
    assert str(board.post("fork").get_result(30)) in {pid for word, pid in diary()}
    slow = board.post("last", {"seconds": 0.3})
    until_begun(conductor, slow)
    assert conductor.stop(timeout=20)
    opened = [pid for word, pid in diary() if word == "open"]
    closed = [pid for word, pid in diary() if word == "closed"]
    assert len(opened) == 3
    assert len(closed) == len(set(closed)) == 2
    assert set(closed) < set(opened)
    words = [word for word, pid in diary() if pid == next(pid for word, pid in diary() if word == "end")]
    assert words == ["open", "begin", "end", "closed"]


def test_what_fails_is_told_and_costs_no_attempt(
    board: JobBoard,
    diary: Callable[[], list[list[str]]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jobboard.conductor.executors.process._RETRY_DELAY", 0.1)
    broken = tmp_path / "diary.start"
    broken.touch()
    conductor = Conductor("test", board, leased.handlers, executor="process")
    with pytest.raises(LifespanFailed, match=r"leases failed: .*leased.py, line \d+: OSError: the database is away"):
        conductor.start()
    assert diary() == []
    broken.unlink()
    conductor.start()
    broken.touch()
    job = board.post("die")
    eventually(lambda: not conductor.healthy)
    waiting = board.post("pid")
    assert "the database is away" in conductor._run.health()["fault"]  # type: ignore[union-attr]
    broken.unlink()
    assert job.get_result(30)
    assert waiting.get_result(30)
    assert [each.record.attempts for each in (job, waiting)] == [2, 1]
    assert conductor.healthy
    (tmp_path / "diary.end").touch()
    assert conductor.stop() is False
    assert "OSError: the database does not answer" in (conductor.unclosed or "")
