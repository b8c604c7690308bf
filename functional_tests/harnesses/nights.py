"""The conductors of the tests of what operators do at 3 a.m."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from jobboard import JobBoard
from jobboard.testing import eventually

Start = Callable[..., subprocess.Popen[str]]


def conductor(start: Start, board: JobBoard, uri: str, handlers: str, *options: str) -> subprocess.Popen[str]:
    """Start a conductor, and wait until it is at work."""
    before = _alive(board)
    which = ("--board", uri, "--name", "night", "conductor", f"harnesses.night_work:{handlers}")
    process = start(*which, "--expiry", "3", *options)
    eventually(lambda: _alive(board) - before, within=60)
    return process


def _alive(board: JobBoard) -> set[str]:
    return {entity.name for entity in board.entities() if entity.alive}
