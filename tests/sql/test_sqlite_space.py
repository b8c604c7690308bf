"""What may fill the disk is named: a reader that never ends, whose log is cut once it has ended, and anything else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobboard import JobBoard, Posting, fetch
from jobboard.backends.sql.sqlite import space
from jobboard.operate.overview import overview
from jobboard.operate.verdict import findings


def _live(board: JobBoard, count: int) -> None:
    for _ in range(0, count, 100):
        board.post_many([Posting("resize") for _ in range(100)])
        board.consume_many(board.claim_next("alice", limit=100), "alice")


def test_a_reader_that_never_ends_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "_ENOUGH", space.LOG_SIZE + 1)
    log = tmp_path / "jobs.db-wal"

    def told() -> list[str]:
        return [finding.text for finding in findings(overview(board)) if finding.kind == "short"]

    with (
        fetch("a", f"sqlite:///{tmp_path}/jobs.db?synchronous=OFF") as board,
        closing(sqlite3.connect(tmp_path / "jobs.db")) as reader,
    ):
        _live(board, 10_000)
        assert told() == []
        reader.isolation_level = None
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM jobboard_jobs").fetchall()
        _live(board, 10_000)
        [text] = told()
        assert f"{log} " in text
        reader.execute("COMMIT")
        _live(board, 10_000)
        assert log.stat().st_size <= space.LOG_SIZE
        assert told() == []


@pytest.mark.parametrize(
    ("free", "total", "is_told"),
    [(40, 1000, True), (60, 1000, False), (900, 100_000, True), (1100, 100_000, False), (0, 10, True)],
)
def test_a_disk_that_is_nearly_full_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, total: int, is_told: bool
) -> None:
    disk = SimpleNamespace(free=free * 1024**2, total=total * 1024**2)
    monkeypatch.setattr(space.shutil, "disk_usage", lambda path: disk)
    with fetch("a", f"sqlite:///{tmp_path}/jobs.db") as board:
        told = [finding for finding in findings(overview(board)) if finding.kind == "short"]
        assert len(told) == is_told
