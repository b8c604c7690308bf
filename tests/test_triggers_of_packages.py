"""Triggers of packages: kinds with a dot in their name, found by entry points."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.command_line import Run

from jobboard import Every, JobBoard, Schedule
from jobboard.errors import MissingExtra
from jobboard.schedules.firing import Firing
from jobboard.schedules.triggers import trigger_from_plain
from jobboard.testing.contract.clockwork import overwrite, stored

pytest_plugins = ("helpers.command_fixtures",)

MODULE = """
from jobboard import Trigger

class Odd(Trigger):
    def __init__(self, *, seconds):
        self.seconds = seconds

    def first_after(self, instant):
        step = self.seconds * 1_000_000
        return (instant // step + 1) * step

    def last_within(self, after, until):
        step = self.seconds * 1_000_000
        found = until // step * step
        return found if found > after else None

    def to_plain(self):
        return {"kind": "acme.odd", "seconds": self.seconds}

def wrong():
    return None
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a package that has a trigger."""
    folder = tmp_path / "site"
    info = folder / "acme-1.dist-info"
    info.mkdir(parents=True)
    (folder / "acme.py").write_text(MODULE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[jobboard.triggers]\nacme.odd = acme:Odd\nacme.wrong = acme:wrong\n")
    return folder


def test_a_package_brings_a_trigger_and_hosts_without_it_leave_it_alone(
    jobboard: Run, board: JobBoard, uri: str, package: Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(package), "XDG_CACHE_HOME": str(package / "cache")}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "jobboard", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    added = run("schedule", "add", "odd", "write", "--trigger", '{"kind": "acme.odd", "seconds": 7}')
    assert added.returncode == 0, added.stderr
    assert run("schedule", "next", "odd", "--count", "3").returncode == 0
    for wrong in ('{"kind": "acme.wrong"}', '{"kind": "acme.none"}', '{"kind": "acme.odd", "minutes": 7}'):
        assert run("schedule", "add", "wrong", "write", "--trigger", wrong).returncode == 2
        assert len(stored_ids(board)) == 1

    # This process has no such package: it posts what it knows, and sets nothing aside.
    assert "acme.odd" in jobboard("schedule", "add", "b", "write", "--trigger", '{"kind": "acme.odd"}', status=2)
    board.schedules.add(Schedule("plain", Every(hours=1), "write"))
    due = board._backend.now() - 1
    for id in ("odd", "plain"):
        row = stored(board, id)
        overwrite(board, type(row)(row.id, row.version, due, row.body))
    assert ([found.id for found in board.schedules], [each.id for each in board.schedules.unreadable()]) == (
        ["plain"],
        ["odd"],
    )
    made = Firing(board._client).fire_due(10)
    assert (made.left, made.taken) == (1, 1)
    assert stored(board, "odd").next_at == due


def stored_ids(board: JobBoard) -> list[str]:
    return [row.id for row in board._backend.schedules.page(None, 10).rows]


def test_a_kind_of_nobody_names_where_it_would_be() -> None:
    with pytest.raises(MissingExtra, match="'acme.none' need a package with the entry point in jobboard.triggers"):
        trigger_from_plain({"kind": "acme.none"})
