"""A URI with a password need not be among the arguments, which everybody on the host can read."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import click
import httpx
import pytest
from helpers.command_line import Run
from helpers.serving import serving

from jobboard import JobBoard
from jobboard.cli.app import cli
from jobboard.cli.values import uri_of

pytest_plugins = ("helpers.command_fixtures",)


@pytest.fixture
def file(board: JobBoard, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with the board's URI; the environment has none, and a part of it."""
    board.post("mail")
    (tmp_path / "uri").write_text(f"{uri}\n")
    monkeypatch.delenv("JOBBOARD_URI")
    monkeypatch.setenv("FOLDER", str(tmp_path))
    return f"@{tmp_path}/uri"


def test_the_uri_is_read_from_a_file(jobboard: Run, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "mail" in jobboard("--board", file, "ls")
    assert "mail" in jobboard("ls", "--board", file)
    monkeypatch.setenv("JOBBOARD_URI", file)
    assert "mail" in jobboard("ls")


def test_values_of_the_environment_are_put_into_it(jobboard: Run, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "mail" in jobboard("ls", "--board", "sqlite:///${FOLDER}/jobs.db")
    Path(file[1:]).write_text("sqlite:///${FOLDER}/jobs.db")
    assert "mail" in jobboard("ls", "--board", file)
    monkeypatch.setenv("JOBBOARD_URI", "sqlite:///${FOLDER}/jobs.db")
    assert "mail" in jobboard("ls")


def test_a_pipe_is_read_once(jobboard: Run, file: str) -> None:
    """Such as bash's --board @<(pass show board)."""
    reader, writer = os.pipe()
    os.write(writer, Path(file[1:]).read_bytes())
    os.close(writer)
    assert "mail" in jobboard("ls", "--board", f"@/dev/fd/{reader}")
    os.close(reader)


@pytest.mark.parametrize("content", ["", "\n", "redis://a\nredis://b\n"])
def test_a_file_without_one_uri_is_refused_and_not_shown(jobboard: Run, file: str, content: str) -> None:
    Path(file[1:]).write_text(content)
    assert jobboard("ls", "--board", file, status=2).startswith(
        f"jobboard: --board: {file[1:]} must have one line, the URI"
    )


def test_what_is_not_there_is_said(jobboard: Run, file: str) -> None:
    assert f"{file[1:]}x: No such file" in jobboard("ls", "--board", f"{file}x", status=2)
    assert "--board: there is no MISSING in the environment" in jobboard(
        "ls", "--board", "redis://:${MISSING}@a", status=2
    )


def test_help_and_other_boards_need_no_file(jobboard: Run, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBBOARD_URI", f"{file}x")
    assert "Examples:" in jobboard("ls", "--help")
    assert "mail" in jobboard("ls", "--board", file)


def test_a_named_configuration_wins_over_a_file_in_the_environment(
    jobboard: Run, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBBOARD_URI", f"{file}x")
    (tmp_path / "boards.toml").write_text(f'[boards.test]\nuri = "sqlite:///{tmp_path}/jobs.db"\n')
    assert "mail" in jobboard("--config", str(tmp_path / "boards.toml"), "ls")


def test_the_console_reads_files_and_the_environment(file: str, tmp_path: Path) -> None:
    boards = ("--board", f"test={file}", "--board", "sqlite:///${FOLDER}/jobs.db", "--name", "test")
    with serving(*boards) as url:
        for slug in ("test", "test-2"):
            assert "mail" in httpx.get(f"{url}/b/{slug}/jobs", timeout=60).text


def test_a_job_store_of_apscheduler_is_read_from_a_file_and_the_environment(
    jobboard: Run, file: str, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "store.db")) as store:
        store.execute("CREATE TABLE apscheduler_jobs (id TEXT, next_run_time REAL, job_state BLOB)")
    (tmp_path / "store").write_text("sqlite:///${FOLDER}/store.db\n")
    for source in (f"@{tmp_path}/store", "sqlite:///${FOLDER}/store.db"):
        said = jobboard("schedule", "import", "--from", source, "--dry-run", "--json", "--board", file)
        assert json.loads(said) == []


def test_a_list_of_processes_shows_no_password(file: str, tmp_path: Path) -> None:
    Path(file[1:]).write_text("sqlite:///${FOLDER}/${PASSWORD}.db")
    command = [sys.executable, "-m", "jobboard", "scheduler", "--health-port", "0", "--board", file]
    environment = os.environ | {"PASSWORD": "s3cret"}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment
    ) as run:
        try:
            assert run.stderr is not None
            assert "health: " in run.stderr.readline()
            assert (tmp_path / "s3cret.db").exists()
            assert "s3cret" not in Path(f"/proc/{run.pid}/cmdline").read_text()
        finally:
            run.send_signal(signal.SIGTERM)
            run.communicate(timeout=60)


def _takes_a_uri(option: click.Parameter) -> bool:
    return isinstance(option, click.Option) and isinstance(option.metavar, str) and "URI" in option.metavar


def test_every_option_that_takes_a_uri_reads_it_from_a_file() -> None:
    """A new one must be added here, and to the tests above."""
    found = {
        (name, option.opts[0])
        for name, command in _commands(cli, "")
        for option in command.params
        if _takes_a_uri(option) and option.opts[0] != "--board"
    }
    assert found == {("schedule import", "--from")}
    assert uri_of("--board", "sqlite:///a$b$$c.db") == "sqlite:///a$b$$c.db"


def _commands(group: click.Command, prefix: str) -> list[tuple[str, click.Command]]:
    found = [(prefix, group)]
    if isinstance(group, click.Group):
        for name, command in group.commands.items():
            found += _commands(command, f"{prefix} {name}".strip())
    return found
