"""Processes of one test, whose output pytest shows if the test fails."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

#: Starts a command, with further variables in its environment.
Start = Callable[..., subprocess.Popen[bytes]]


@contextmanager
def logged_processes(folder: Path) -> Iterator[Start]:
    """Start processes in a folder, each with its output in ``log-NUMBER``; all end with the block, whatever they do."""
    started: list[subprocess.Popen[bytes]] = []

    def start(command: Sequence[str], **variables: str) -> subprocess.Popen[bytes]:
        with (folder / f"log-{len(started)}").open("wb") as log:
            environment = {**os.environ, **variables}
            started.append(subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log))
        return started[-1]

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.wait()
        for log in sorted(folder.glob("log-*")):
            sys.stdout.write(f"{log.name}:\n{log.read_text()}\n")
