"""Runs tests, and those that failed up to twice more: a machine may be slow for a moment.

The arguments are those of pytest. The second try runs them by themselves, the third one beside the rest of their files,
as the first one did: who depends on others may fail always in one of the two. More than three failures, or one in a
test that draws its faults by chance, is final. What needed another try is named at the end, as a warning: nothing is
hidden, and what fails always fails.

A ledger on this machine has what needed another try in the last ten runs of each tox environment. A test that needs one
for the second time within them fails the run, since a slow moment does not explain it. JOBBOARD_RETRIED_TESTS names
another file.

Temporary files are in memory where there is room: most tests of an embedded board wait for a disk for a third of their
time.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

MAX_FAILED = 3
#: One failure in these is a promise broken.
FINAL = (
    "test_histories.py", "test_lifecycle_differential.py", "test_schedulers.py", "test_state_machine.py",
    "test_state_machines.py", "test_two_versions.py",
)  # fmt: skip
#: Where files are in memory; and how many bytes must be free there, which is several times what the tests need.
MEMORY, ROOM = Path("/dev/shm"), 4 << 30
#: How many runs the ledger remembers of each environment.
MAX_RUNS = 10


def run(*arguments: str) -> tuple[int, list[str]]:
    """Return the status of pytest, and which tests failed."""
    # Of its own: other environments run tests at the same time.
    with tempfile.TemporaryDirectory() as cache:
        status = subprocess.call([sys.executable, "-m", "pytest", "-q", "-o", f"cache_dir={cache}", *arguments])
        failed = Path(cache, "v/cache/lastfailed")
        return status, sorted(json.loads(failed.read_text())) if failed.exists() else []


@contextlib.contextmanager
def temporary_files() -> Iterator[None]:
    """Have what the tests start make its temporary files in memory, if it can also run programs from there."""
    if not has_room(MEMORY):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="jobboard-", dir=MEMORY) as folder:
        # Some servers run as a user of their own.
        os.chmod(folder, 0o755)
        os.environ["TMPDIR"] = folder
        yield


def has_room(folder: Path) -> bool:
    if not os.access(folder, os.W_OK):
        return False
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize > ROOM and not status.f_flag & os.ST_NOEXEC


def is_final(failed: list[str]) -> bool:
    """Whether it is no use, or not right, to try again."""
    files = (test.partition("::")[0] for test in failed)
    return not 0 < len(failed) <= MAX_FAILED or any(file.endswith(FINAL) for file in files)


def ledger_path() -> Path:
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return Path(os.environ.get("JOBBOARD_RETRIED_TESTS") or state / "jobboard" / "retried_tests.json")


def write_down(retried: list[str]) -> list[str]:
    """Add a run to the ledger, and return which of its retried tests it has already."""
    path, environment = ledger_path(), os.environ.get("TOX_ENV_NAME", "")
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        # Two environments may end at the same time.
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        ledger: dict[str, list[list[str]]] = json.loads(file.read() or "{}")
        before = ledger.get(environment, [])[1 - MAX_RUNS :]
        ledger[environment] = [*before, retried]
        file.truncate(0)
        json.dump(ledger, file, indent=1)
    return sorted({test for tests in before for test in tests}.intersection(retried))


def main(arguments: list[str]) -> int:
    with temporary_files():
        status, retried = run_and_try_again(arguments)
    if status != 0:
        return status
    again = write_down(retried)
    sys.stdout.writelines(f"FAILED {test} - needed another try before, within {MAX_RUNS} runs\n" for test in again)
    return 1 if again else 0


def run_and_try_again(arguments: list[str]) -> tuple[int, list[str]]:
    """Return the final status, and which tests needed another try."""
    status, failed = run(*arguments)
    if status != 1 or is_final(failed):
        return status, []
    first = failed
    status, failed = run("-n", "0", *failed)
    if status == 1 and not is_final(failed):
        options = [each for each in arguments if not Path(each).exists()]
        status, _ = run(*options, *sorted({test.partition("::")[0] for test in failed}))
    if status == 0:
        sys.stdout.writelines(
            f"RETRIED {test} - WARNING: it failed at first, and passed when tried again\n" for test in first
        )
    return status, first


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
