"""From where ``jobboard conductor`` imports handlers: installed modules come before the present directory's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_LOAD = """
import sys
sys.path[:] = [{installed!r}, *(path for path in sys.path if path)]
from jobboard.cli.conducting import load_handlers
print(load_handlers({name!r}).names)
"""
_MODULE = "import jobboard\nhandlers = jobboard.Handlers()\nhandlers.add({job!r}, print)\n"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    installed, present = tmp_path / "installed", tmp_path / "present"
    for folder in (installed, present):
        folder.mkdir()
        (folder / "both_have.py").write_text(_MODULE.format(job=folder.name))
    (present / "only_here.py").write_text(_MODULE.format(job="present"))
    return installed, present


def load(folders: tuple[Path, Path], name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    installed, present = folders
    return subprocess.run(
        [sys.executable, "-c", _LOAD.format(installed=str(installed), name=f"{name}:handlers")],
        cwd=present, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_an_installed_module_comes_first(folders: tuple[Path, Path]) -> None:
    assert "'installed'" in load(folders, "both_have").stdout


def test_the_present_directory_comes_last(folders: tuple[Path, Path]) -> None:
    assert "'present'" in load(folders, "only_here").stdout


def test_what_a_module_has_instead_is_named(folders: tuple[Path, Path]) -> None:
    (folders[1] / "other.py").write_text("import jobboard\njobs = jobboard.Handlers()\n")
    assert "other has no Handlers named 'handlers'; it has jobs" in load(folders, "other").stderr
    assert (
        "there is no module 'other.py' to import; a file is named without .py: other"
        in load(folders, "other.py").stderr
    )


def test_safe_mode_leaves_the_present_directory_out(folders: tuple[Path, Path]) -> None:
    refused = load(folders, "only_here", PYTHONSAFEPATH="1")
    assert refused.returncode != 0
    assert "there is no module 'only_here'" in refused.stderr
