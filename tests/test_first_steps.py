"""The five minutes of the first steps, typed as they stand there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobboard import JobState, backend
from jobboard.testing import eventually

PAGE = Path(__file__).parent.parent / "doc/guides/first-steps.rst"
_BLOCK = re.compile(r"^\.\. code-block:: (shell|python)\n((?:[ \t]*\n|[ \t]+.*\n)+)", re.MULTILINE)


@pytest.fixture
def blocks() -> list[tuple[str, str]]:
    return [(found[1], textwrap.dedent(found[2]).strip()) for found in _BLOCK.finditer(PAGE.read_text())]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """An empty directory in which the virtual environment of the page is the one of the tests."""
    activate = tmp_path / "jobs/bin/activate"
    activate.parent.mkdir(parents=True)
    activate.write_text(f"export PATH={Path(sys.executable).parent}:$PATH\n")
    return tmp_path


@pytest.fixture
def start_conductor(blocks: list[tuple[str, str]], directory: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts the conductor of the first terminal, with the handlers of the page; its claims end sooner."""
    handlers, command = blocks[1:3]
    assert (handlers[0], command[0]) == ("python", "shell")
    (directory / "mywork.py").write_text(handlers[1])
    script = f". jobs/bin/activate\n{command[1].replace('jobboard conductor', 'exec jobboard conductor')}"
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        environment = {**_environment(), "JOBBOARD_EXPIRY": "2"}
        started.append(subprocess.Popen(["bash", "-ec", script], cwd=directory, env=environment))
        return started[-1]

    yield start
    started[-1].send_signal(signal.SIGTERM)
    assert started[-1].wait(60) == 0


def test_the_five_minutes(
    blocks: list[tuple[str, str]],
    directory: Path,
    start_conductor: Callable[[], subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install, _, _, look, mend, worst, wait, post = blocks
    conductor = start_conductor()
    assert install[1].splitlines()[-1] == "pip install '/path/to/clone[cli]'"
    monkeypatch.chdir(directory)
    *lines, status = look[1].splitlines()
    subprocess.run(["bash", "-ec", "\n".join(lines)], env=_environment(), check=True, timeout=120)
    with backend("first", "sqlite:///jobs.db") as board:
        assert _find("mywork", directory)["result"] == len((directory / "mywork.py").read_text().split())
        eventually(lambda: [job.key for job in board.trashed()] == ["later"], 120)
        subprocess.run(
            ["bash", "-ec", f"{_preparation(lines)}\n{mend[1]}"], env=_environment(), check=True, timeout=120
        )
        assert _find("later", directory)["result"] == 4
        lose = worst[1].replace('"seconds": 20', '"seconds": 3').partition("kill -9 PID")[0]
        subprocess.run(["bash", "-ec", f"{_preparation(lines)}\n{lose}"], env=_environment(), check=True, timeout=120)
        eventually(lambda: board.find("count", "worst").state is JobState.CLAIMED, 60)
        [entity] = board.entities()
        assert entity.name.split(":")[1] == str(conductor.pid)
    conductor.kill()
    conductor.wait(60)
    start_conductor()
    subprocess.run(["bash", "-ec", f"{_preparation(lines)}\n{wait[1]}"], env=_environment(), check=True, timeout=120)
    assert _find("worst", directory)["attempts"] == 2
    known = subprocess.run(
        ["bash", "-ec", f"{_preparation(lines)}\n{status}"], env=_environment(), check=False, timeout=60
    )
    assert known.returncode in (0, 1)
    exec(compile(post[1], "first-steps.rst", "exec"), {})


def _find(key: str, directory: Path) -> dict[str, object]:
    """Wait until a job is complete; return what ``jobboard show`` says of it."""
    found: dict[str, object] = {}

    def is_complete() -> bool:
        script = f". jobs/bin/activate\njobboard --board sqlite:///jobs.db --name first show count:{key} --json"
        done = subprocess.run(
            ["bash", "-ec", script], cwd=directory, env=_environment(), capture_output=True, check=True
        )
        found.update(json.loads(done.stdout))
        return found["state"] == JobState.COMPLETE.name

    eventually(is_complete, 60)
    return found


def _preparation(lines: list[str]) -> str:
    return "\n".join(line for line in lines if not line.startswith("jobboard "))


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("JOBBOARD_")}
