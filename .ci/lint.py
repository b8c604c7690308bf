"""Checks style, types, the arrows between the layers, and the documentation; two at a time, since each uses one core.

The argument is a folder for the documentation as HTML.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

#: Those that take longest come first.
CHECKS = (
    "mypy",
    "python .ci/lint_docs.py",
    "bandit -q -c pyproject.toml -r jobboard",
    "python .ci/lint_lua.py",
    "lint-imports",
    "ruff check .",
    "ruff format --check .",
)


def run(check: str) -> int:
    """Return the status of a check, once all that it says is shown."""
    command = check.split() + sys.argv[1:] * check.endswith("lint_docs.py")
    began = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    sys.stdout.write(f"{check}: status {done.returncode} after {time.monotonic() - began:.1f} s\n{done.stdout}\n")
    return done.returncode


def main() -> int:
    with ThreadPoolExecutor(2) as pool:
        return int(any(list(pool.map(run, CHECKS))))


if __name__ == "__main__":
    sys.exit(main())
