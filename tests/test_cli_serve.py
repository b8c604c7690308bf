"""The command that serves the console."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from helpers.command_line import Run, process

from jobboard import backend

pytest_plugins = ("helpers.command_fixtures",)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0"], "lets other machines look at the boards: add --auth FILE, or --behind-proxy"),
        (["--host", "::"], "lets other machines look"),
        (["--host", "example.org"], "'example.org' is no IP address"),
        (["--allow", "release,relaese"], "--allow: there is no right 'relaese'; there are details, cancel,"),
        (["--board", "memory://x"], "a memory board lives within one process"),
        (["--auth", "/none"], "does not exist"),
        (["--root-path", "jobs"], "--root-path begins with a slash: /jobs"),
        (["--allow-host", "https://ops.example.org"], "--allow-host is a host's name, such as ops.example.org, not"),
    ],
)
def test_wrong_usage_is_refused(jobboard: Run, arguments: list[str], said: str) -> None:
    assert said in jobboard("serve", *arguments, status=2)


def test_a_file_without_passwords_is_refused(jobboard: Run, tmp_path: Path) -> None:
    (tmp_path / "users").write_text("ann\n")
    assert "users: line 1 is not NAME:PASSWORD" in jobboard("serve", "--auth", str(tmp_path / "users"), status=2)


def test_a_board_that_does_not_exist_is_refused(jobboard: Run, tmp_path: Path) -> None:
    assert "there is no file" in jobboard("serve", "--board", f"sqlite:///{tmp_path}/jbos.db", status=1)


def test_a_port_that_is_taken_is_said(jobboard: Run) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "can't listen on 127.0.0.1" in jobboard("serve", "--port", str(taken.getsockname()[1]), status=1)


def test_it_serves_several_boards_until_it_is_told_to_stop(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with backend(name, f"sqlite:///{tmp_path}/jobs.db") as board:
            board.post("mail")
    uri = f"sqlite:///{tmp_path}/jobs.db"
    arguments = ["serve", "--board", f"a={uri}", "--board", uri, "--name", "b", "--port", "0", "--root-path", "/ops/"]
    command = [sys.executable, "-m", "jobboard", *arguments]
    environment = os.environ | {"JOBBOARD_CONSOLE_AUTH": "ann:secret"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stderr is not None
            line = server.stderr.readline()
            assert line.startswith("console: http://127.0.0.1:")
            url = line.split()[1].removesuffix("/ops/")
            with httpx.Client(base_url=url, timeout=30) as web:
                assert web.get("/").status_code == 401
                page = web.get("/", auth=("ann", "secret"))
                assert (page.status_code, 'href="/ops/b/a/' in page.text) == (200, True)
                assert "mail" in web.get("/b/b/jobs", auth=("ann", "secret")).text
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 0
        finally:
            server.kill()


def test_its_help_has_examples() -> None:
    assert "jobboard serve --board sqlite:///jobs.db" in process("serve", "--help").stdout
