"""Runs tests, and those that failed once more, by themselves: a machine may be slow for a moment.

The arguments are those of pytest. More than three failures, or one in a test that draws its faults by chance, is final.
What needed its second try is named at the end, as a warning: nothing is hidden.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PYTEST = [sys.executable, "-m", "pytest", "-q", "-o", "cache_dir=.pytest_cache"]
#: Where pytest notes down what failed.
FAILED = Path(".pytest_cache/v/cache/lastfailed")
MAX_FAILED = 3
#: One failure in these is a promise broken.
FINAL = (
    "test_histories.py", "test_lifecycle_differential.py", "test_schedulers.py", "test_state_machine.py",
    "test_state_machines.py",
)  # fmt: skip


def main(arguments: list[str]) -> int:
    FAILED.unlink(missing_ok=True)
    status = subprocess.call([*PYTEST, *arguments])
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []
    is_final = any(test.partition("::")[0].endswith(FINAL) for test in failed)
    if status != 1 or not failed or len(failed) > MAX_FAILED or is_final:
        return status
    status = subprocess.call([*PYTEST, "-n", "0", *failed])
    if status == 0:
        sys.stdout.write("WARNING: these failed at first, and passed by themselves:\n" + "\n".join(failed) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
