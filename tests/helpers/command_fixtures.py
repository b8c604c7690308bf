"""For tests of the command line: a board on a new SQLite file, and a way to run commands on it in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.command_line import Run
from jobboard import JobBoard, fetch
from jobboard.cli.app import USAGE, run


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    # What the disk has after a power cut is no question here.
    uri = f"sqlite:///{tmp_path}/jobs.db?synchronous=NORMAL"
    monkeypatch.setenv("JOBBOARD_URI", uri)
    monkeypatch.setenv("JOBBOARD_NAME", "test")
    with fetch("test", uri):
        return uri


@pytest.fixture
def board(uri: str) -> Iterator[JobBoard]:
    with fetch("test", uri) as board:
        yield board


@pytest.fixture
def jobboard(uri: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process; returns what it printed, or on failure its one line of refusal."""

    def call(*arguments: str, status: int = 0) -> str:
        capsys.readouterr()
        found = run(list(arguments))
        out, err = capsys.readouterr()
        assert found == status, err
        assert "Traceback" not in out + err
        if status == 0:
            assert err == ""
        else:
            assert err.startswith("jobboard: ") or "Usage:" in err
            assert status == USAGE or err.count("\n") == 1, "one clear line"
        return str(out if status == 0 else err)

    return call
