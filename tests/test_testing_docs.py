"""The examples of the kit's page run as they stand there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "doc" / "examples" / "testing"


def passed(*paths: str) -> str:
    """Run pytest in the folder of the examples, and return its last line."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-W",
        "error",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:hypothesispytest",
    ]
    command += ["-c", "/dev/null", "--rootdir", ".", *paths]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


def test_the_examples_with_fixtures_run() -> None:
    assert "5 passed" in passed(".")


def test_the_examples_with_a_test_case_of_django_run() -> None:
    assert "3 passed" in passed("django_orders.py")
