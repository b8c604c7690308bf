"""The permissions of an SQLite board's file."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from jobboard import fetch


def modes(folder: Path) -> dict[str, str]:
    return {path.name: f"{stat.S_IMODE(path.stat().st_mode):o}" for path in folder.iterdir()}


@pytest.mark.parametrize("mode", ["600", "660", "0640"])
def test_a_new_file_has_the_mode_that_was_asked_for(tmp_path: Path, mode: str) -> None:
    with fetch("a", f"sqlite:///{tmp_path}/jobs.db?mode={mode}") as board:
        board.post("resize")
        wanted = mode.lstrip("0")
        assert modes(tmp_path) == dict.fromkeys(["jobs.db", "jobs.db-wal", "jobs.db-shm"], wanted)


def test_a_file_that_a_link_points_at_has_the_mode_too(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "far").symlink_to(data / "jobs.db")
    (tmp_path / "jobs.db").symlink_to("far")
    with fetch("a", f"sqlite:///{tmp_path}/jobs.db?mode=600") as board:
        board.post("resize")
        assert modes(data) == dict.fromkeys(["jobs.db", "jobs.db-wal", "jobs.db-shm"], "600")


def test_a_file_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/jobs.db"
    with fetch("a", uri) as board:
        job = board.post("resize")
    (tmp_path / "jobs.db").chmod(0o644)
    with fetch("a", uri, mode=0o600) as board:
        assert board.get(job.uuid) == job
        assert modes(tmp_path)["jobs.db"] == "644"


@pytest.mark.parametrize("mode", ["777", "400", "0", "x", "888", "-600", 0o1600, None])
def test_a_mode_of_no_use_is_refused(tmp_path: Path, mode: object) -> None:
    with pytest.raises(ValueError, match="mode"):
        fetch("a", f"sqlite:///{tmp_path}/jobs.db", mode=mode)
