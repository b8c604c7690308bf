"""What the README has one run in a fresh clone leaves nothing that git would see."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest
from servers.redis_servers import RedisServer

pytest_plugins = ("harnesses.example_processes",)

ROOT = Path(__file__).parent.parent
#: What tox and what it runs leave behind, beside what the demo does.
LEFT_BY_TESTS = [
    ".tox/4", ".mypy_cache/a", ".ruff_cache/a", ".pytest_cache/a", ".hypothesis/a", ".import_linter_cache/a",
    "dist/a.whl", "build/lib/a.py", "doc/_build/index.html", "jobboard/__pycache__/a.pyc",
]  # fmt: skip


def git(clone: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", "-C", str(clone), *arguments], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


#: The README's program, on a board of Redis.
PROGRAM = """
import sys
import jobboard
from jobboard import Conductor, Handlers, backend

handlers = Handlers()

@handlers.handler("resize")
def resize(job):
    return job.details["path"]

if __name__ == "__main__":
    with backend("pictures", sys.argv[1]) as board:
        job = board.post("resize", details={"path": "/a.png"})
        conductor = Conductor("worker", board, handlers)
        conductor.start()
        print(jobboard.__file__, job.get_result(timeout=30))
        conductor.stop()
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(tmp_path / "clone")], check=True, timeout=60)
    return tmp_path / "clone"


@pytest.mark.turn_of("clones")
def test_the_demo_leaves_a_clean_tree(clone: Path, tmp_path: Path) -> None:
    """It installs from the clone as always; only what it depends on is taken from here, not from an index."""
    assert git(clone, "ls-files", ".venv*", ".tox*") == []
    make_environment(clone)
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("content")
    done = run_offline(clone, str(clone / "bin/demo"), str(tree))
    assert (done.returncode, (clone / "SHA256SUMS").exists()) == (0, True), done.stderr
    assert git(clone, "status", "--porcelain") == []
    (clone / "SHA256SUMS").unlink()
    left = {line.split()[-1] for line in git(clone, "status", "--porcelain", "--ignored")}
    told = (ROOT / "README.rst").read_text().partition("bin/demo DIRECTORY")[2].partition("Run all tests")[0]
    assert {name for name in left if f"``{name.rstrip('/')}" not in told and "__pycache__" not in name} == set()


@pytest.mark.turn_of("clones")
def test_the_demo_uses_an_editable_installation_as_it_is(clone: Path, tmp_path: Path) -> None:
    make_environment(clone)
    [packages] = (clone / ".venv/lib").glob("python*/site-packages")
    # What an editable installation comes down to.
    (packages / "__editable__.jobboard.pth").write_text(str(clone))
    before = sorted(packages.iterdir())
    (tmp_path / "tree").mkdir()
    done = run_offline(clone, str(clone / "bin/demo"), str(tmp_path / "tree"))
    assert (done.returncode, "0 jobs" in done.stdout) == (0, True), done.stderr
    assert sorted(packages.iterdir()) == before
    assert not (clone / "build").exists()


@pytest.mark.turn_of("clones")
def test_a_program_saved_in_the_clone_runs_there_on_redis(clone: Path, redis_server: RedisServer) -> None:
    """It imports the checkout's package, which is found before the one that is installed."""
    make_environment(clone)
    python = str(clone / ".venv/bin/python")
    installed = run_offline(clone, python, "-m", "pip", "install", "-q", ".[redis]")
    assert installed.returncode == 0, installed.stderr
    (clone / "mywork.py").write_text(PROGRAM)
    done = run_offline(clone, python, "mywork.py", redis_server.uri)
    assert (done.returncode, done.stdout.split()) == (0, [str(clone / "jobboard/__init__.py"), "/a.png"]), done.stderr
    shutil.rmtree(clone / "lua")
    done = run_offline(clone, python, "mywork.py", redis_server.uri)
    assert done.returncode == 1
    assert "jobboard.errors.BoardUnavailable: this jobboard, " in done.stderr


def make_environment(clone: Path) -> None:
    """Make the clone's ``.venv``; what jobboard depends on is taken from here."""
    subprocess.run([sys.executable, "-m", "venv", str(clone / ".venv")], check=True, timeout=120)
    [packages] = (clone / ".venv/lib").glob("python*/site-packages")
    (packages / "here.pth").write_text("\n".join(site.getsitepackages()))


def run_offline(clone: Path, *command: str) -> subprocess.CompletedProcess[str]:
    offline = {**os.environ, "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    return subprocess.run(command, cwd=clone, env=offline, capture_output=True, text=True, timeout=240, check=False)


def test_what_the_tests_leave_is_ignored(clone: Path) -> None:
    left = [".venv/bin/pip", *LEFT_BY_TESTS]
    assert git(clone, "check-ignore", "--no-index", *left) == left
    for name in left:
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_text("left behind")
    assert git(clone, "status", "--porcelain") == []
