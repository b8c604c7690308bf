"""CI tries again what failed: by itself, and then beside its file. What fails always fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN_TESTS = Path(__file__).parent.parent / ".ci" / "run_tests.py"

#: Each test notes that it ran.
TESTS = """
from pathlib import Path
import pytest

def times_run(name):
    with Path(name).open("a") as file:
        file.write("x")
    return len(Path(name).read_text())

def test_neighbour():
    times_run("neighbour")

@pytest.mark.parametrize("number", range(NUMBER))
def test_luck(number):
    assert times_run(f"luck {number}") >= PASSES_AT
"""


def run_file(folder: Path, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a file. Without the plugins that it does not need it takes a fraction of the time."""
    environment = {
        **os.environ,
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p xdist",
        "JOBBOARD_RETRIED_TESTS": str(folder / "ledger.json"),
        **environment,
    }
    command = [sys.executable, str(RUN_TESTS), "-n", "0", name]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )


def run_tests(folder: Path, name: str, passes_at: int, number: int = 1) -> tuple[int, bool, int, int]:
    """Return the status, whether there was a warning, and how often the unlucky test and its neighbour ran."""
    (folder / name).write_text(TESTS.replace("NUMBER", str(number)).replace("PASSES_AT", str(passes_at)))
    done = run_file(folder, name)
    ran = (len((folder / test).read_text()) for test in ("luck 0", "neighbour"))
    return done.returncode, "WARNING" in done.stdout, *ran


@pytest.mark.parametrize(("passes_at", "outcome"), [(2, (0, True, 2, 1)), (3, (0, True, 3, 2)), (4, (1, False, 3, 2))])
def test_it_is_tried_three_times(tmp_path: Path, passes_at: int, outcome: tuple[int, bool, int, int]) -> None:
    assert run_tests(tmp_path, "test_it.py", passes_at) == outcome


def test_many_failures_are_final(tmp_path: Path) -> None:
    assert run_tests(tmp_path, "test_it.py", 2, number=4) == (1, False, 1, 1)


def test_a_promise_that_was_broken_once_is_broken(tmp_path: Path) -> None:
    assert run_tests(tmp_path, "test_histories.py", 2) == (1, False, 1, 1)


def test_a_second_retry_within_ten_runs_fails_the_run(tmp_path: Path) -> None:
    def run(passes_at: int) -> tuple[int, bool, int, int]:
        for file in tmp_path.glob("luck *"):
            file.unlink()
        return run_tests(tmp_path, "test_it.py", passes_at)

    assert [run(passes_at)[0] for passes_at in (1, 2, 1, 1, 2)] == [0, 0, 0, 0, 1]


def test_the_ledger_forgets_a_retry_after_ten_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = tmp_path / "ledger.json"
    ledger.write_text(json.dumps({"": [["test_it.py::test_luck[0]"], *[[]] * 9]}))
    monkeypatch.delenv("TOX_ENV_NAME", raising=False)
    assert run_tests(tmp_path, "test_it.py", 2)[0] == 0
    assert json.loads(ledger.read_text())[""] == [*[[]] * 9, ["test_it.py::test_luck[0]"]]


def test_temporary_files_are_gone_afterwards(tmp_path: Path) -> None:
    made = "Path('where').write_text(tempfile.mkdtemp())"
    (tmp_path / "test_it.py").write_text(f"import tempfile\nfrom pathlib import Path\n\ndef test_it():\n    {made}\n")
    assert run_file(tmp_path, "test_it.py", TMPDIR=str(tmp_path)).returncode == 0
    where = Path((tmp_path / "where").read_text())
    # On a disk they are where they were to be.
    assert where.parent == tmp_path or not where.parent.exists()
