"""A version of Python that can't be had fails no run of CI, and is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / ".ci/other_python.py"


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """A machine with no program on its path and nothing in its cache."""
    return {**os.environ, "PATH": str(tmp_path), "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def test_what_cannot_be_had_is_skipped_and_leaves_nothing_half_done(machine: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "3.99"],
        cwd=SCRIPT.parent.parent,
        env=machine,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "SKIPPED [1] Python 3.99: it is not here, and Debian's can't be had"
    assert list((tmp_path / "cache/jobboard").iterdir()) == []
