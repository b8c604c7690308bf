"""What the README has one run in a fresh clone leaves nothing that git would see."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: What tox and what it runs leave behind, beside what the demo does.
LEFT_BY_TESTS = [
    ".tox/4", ".mypy_cache/a", ".ruff_cache/a", ".pytest_cache/a", ".hypothesis/a", ".import_linter_cache/a",
    "dist/a.whl", "build/lib/a.py", "doc/_build/index.html", "jobboard/__pycache__/a.pyc",
]  # fmt: skip


def git(clone: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", "-C", str(clone), *arguments], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(tmp_path / "clone")], check=True, timeout=60)
    return tmp_path / "clone"


def test_the_demo_leaves_a_clean_tree(clone: Path, tmp_path: Path) -> None:
    """It installs from the clone as always; only what it depends on is taken from here, not from an index."""
    assert git(clone, "ls-files", ".venv*", ".tox*") == []
    subprocess.run([sys.executable, "-m", "venv", str(clone / ".venv")], check=True, timeout=120)
    [packages] = (clone / ".venv/lib").glob("python*/site-packages")
    (packages / "here.pth").write_text("\n".join(site.getsitepackages()))
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("content")
    offline = {**os.environ, "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    command = [str(clone / "bin/demo"), str(tree)]
    done = subprocess.run(command, cwd=clone, env=offline, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, (clone / "SHA256SUMS").exists()) == (0, True), done.stderr
    assert git(clone, "status", "--porcelain") == []


def test_what_the_tests_leave_is_ignored(clone: Path) -> None:
    left = [".venv/bin/pip", *LEFT_BY_TESTS]
    assert git(clone, "check-ignore", "--no-index", *left) == left
    for name in left:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text("left behind")
    assert git(clone, "status", "--porcelain") == []
