"""The command doctor: what is installed, what a URI reaches, and what this login may do."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from helpers.command_line import Run, process

from jobboard import Entity, Every, JobBoard, Schedule, fetch
from jobboard.backends.sql.maintenance import server_name
from jobboard.operate import doctor

pytest_plugins = ("helpers.command_fixtures",)


def diagnoses(jobboard: Run, *arguments: str) -> dict[str, dict[str, Any]]:
    """Return what the command says of a board, by subject."""
    return {each["subject"]: each for each in json.loads(jobboard("doctor", "--json", *arguments))}


def test_a_board_that_is_well(jobboard: Run) -> None:
    jobboard("post", "resize")
    found = diagnoses(jobboard)
    assert all(each["well"] is not False for each in found.values())
    assert found["store"]["text"] == f"sqlite: SQLite {sqlite3.sqlite_version} answers"
    assert "has 1 jobs" in found["board"]["text"]
    assert found["jobboard"]["text"].startswith("jobboard ")


def test_a_schedule_of_a_name_that_no_conductor_has(jobboard: Run, board: JobBoard) -> None:
    board.schedules.add(Schedule("nightly", Every(hours=1), "reprot"))
    assert "no_handler" not in diagnoses(jobboard), "no conductor is alive"
    board.register_entity(Entity("conductor", "worker", {"names": ["report"]}))
    found = diagnoses(jobboard)["no_handler"]
    assert found["well"] is None
    assert "'nightly'" in found["text"]
    assert "'reprot'" in found["text"]


def test_a_trial_leaves_no_job(jobboard: Run, board: JobBoard) -> None:
    assert diagnoses(jobboard, "--trial")["rights"]["well"] is True
    assert list(board.iterjobs()) == []


def test_a_trial_needs_a_board(jobboard: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JOBBOARD_URI")
    assert "--trial needs a board" in jobboard("doctor", "--trial", status=2)
    assert "jobboard " in jobboard("doctor")


def test_what_keeps_a_board_from_working_is_said(tmp_path: Path) -> None:
    file = tmp_path / "mistyped.db"
    done = process("doctor", "--board", f"sqlite:///{file}")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == f"BAD  there is no file {file}, and no board in it"
    assert not file.exists()


def test_an_extra_that_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version_of", lambda package: None if package == "kazoo" else "1.0")
    (missing,) = [each for each in doctor.installation() if each.well is None]
    assert missing.text == "zookeeper: kazoo missing; pip install 'jobboard[zookeeper]' if you need it"


@pytest.mark.parametrize(("ahead", "words"), [(0.5, "agree"), (90.0, "1m30s ahead of"), (-7200.0, "2h behind")])
def test_a_clock_that_differs_is_named(ahead: float, words: str) -> None:
    board = fetch("doctor", "redis://localhost")
    assert board.capabilities.clock == "store"
    found = doctor._clock(ahead, board)
    assert words in found.text
    assert found.well is (True if abs(ahead) <= doctor.MAX_CLOCK_DIFFERENCE else None)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("PostgreSQL 15.14 (Debian 15.14-0+deb12u1) on x86_64-pc-linux-gnu", "PostgreSQL 15.14"),
        ("10.11.14-MariaDB-0+deb12u2", "MariaDB 10.11.14"),
        ("8.4.2", "MySQL 8.4.2"),
        ("SQLite 3.40.1", "SQLite 3.40.1"),
        ("what", "MySQL"),
    ],
)
def test_a_database_is_named_by_what_it_says(said: str, name: str) -> None:
    assert server_name(said) == name
