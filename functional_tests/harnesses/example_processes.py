"""The processes of the applications in ``examples/``, started as their READMEs say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

Run = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Start ``python -m MODULE ...`` with the examples at hand; all end with the test, whatever state they are in."""
    started: list[subprocess.Popen[bytes]] = []

    def run(module: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", module, *arguments]
        environment = {**os.environ, "PYTHONPATH": str(EXAMPLES)}
        with (tmp_path / f"log-{len(started)}").open("wb") as log:
            process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log)
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
    # pytest shows it if the test failed.
    for log in sorted(tmp_path.glob("log-*")):
        sys.stdout.write(f"{log.name}:\n{log.read_text()}\n")
