"""The demo on real trees, checked by the real ``sha256sum``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from jobboard.testing import eventually


def demo(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jobboard", "demo", *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=110, check=False)
    assert "Traceback" not in done.stdout + done.stderr
    return done


def check(cwd: Path, file: str = "SHA256SUMS") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["sha256sum", "-c", "--strict", file], cwd=cwd, capture_output=True, timeout=60, check=False)


def test_twenty_thousand_files_and_a_killed_conductor(tmp_path: Path) -> None:
    for directory in range(200):
        (tmp_path / f"tree/{directory}").mkdir(parents=True)
        for number in range(100):
            (tmp_path / f"tree/{directory}/{number}").write_bytes(os.urandom(600))
    done = demo(tmp_path, "tree", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["jobs"], report["unreadable"]) == (0, 20_000, [])
    assert report["killed"] is not None
    assert report["taken_over"] > 0
    assert sum(report["owners"].values()) == 20_000
    checked = check(tmp_path)
    assert (checked.returncode, checked.stdout.count(b": OK\n")) == (0, 20_000)


def test_odd_names(tmp_path: Path) -> None:
    tree = os.fsencode(tmp_path / "tree")
    os.mkdir(tree)
    names = [
        b"plain",
        b"a space",
        b"a\nnewline",
        b"a\rreturn",
        b"back\\slash",
        b"\xff\xfe",
        "ü".encode(),
        b"-dash",
        b"*",
    ]
    for name in names:
        with open(os.path.join(tree, name), "wb") as file:
            file.write(name)
    done = demo(tmp_path, "./tree", "--no-kill")
    assert done.returncode == 0
    checked = check(tmp_path)
    assert (checked.returncode, checked.stdout.count(b": OK\n")) == (0, len(names))
    assert all(
        line.lstrip(b"\\")[66:].startswith(b"./tree/") for line in (tmp_path / "SHA256SUMS").read_bytes().splitlines()
    )


def test_what_cannot_be_read_is_shown_and_the_rest_is_done(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "good").write_text("good")
    (tree / "nowhere").symlink_to("/no/such/file")
    os.mkfifo(tree / "pipe")
    done = demo(tmp_path, "tree")
    assert done.returncode == 1
    assert "tree/nowhere: can't be read: No such file or directory" in done.stderr
    assert "1 entries are no files" in done.stdout
    assert check(tmp_path).returncode == 0
    assert (tmp_path / "SHA256SUMS").read_text().endswith("  tree/good\n")


def test_an_empty_directory(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    done = demo(tmp_path, "tree")
    assert (done.returncode, (tmp_path / "SHA256SUMS").read_bytes()) == (0, b"")
    assert "0 jobs" in done.stdout


@pytest.mark.parametrize("what", ["missing", "file"])
def test_what_is_no_directory_is_refused(tmp_path: Path, what: str) -> None:
    (tmp_path / "file").write_text("x")
    done = demo(tmp_path, what)
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "SHA256SUMS").exists()


def test_the_sums_are_not_summed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    for _ in range(2):
        assert demo(tmp_path, ".", "--no-kill").returncode == 0
        assert check(tmp_path).stdout == b"./a: OK\n"


def test_another_board_and_another_output(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a").write_text("a")
    command = [sys.executable, "-m", "jobboard", "--board", "sqlite:///mine.db", "demo", "tree", "-o", "sums"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, check(tmp_path, "sums").returncode) == (0, 0)
    assert (tmp_path / "mine.db").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_no_process_behind(tmp_path: Path, number: int) -> None:
    (tmp_path / "tree").mkdir()
    for name in range(3000):
        (tmp_path / f"tree/{name}").write_bytes(b"x" * 2000)
    process = subprocess.Popen(
        [sys.executable, "-m", "jobboard", "demo", "tree"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        children = eventually(lambda: psutil.Process(process.pid).children(recursive=True), 20)
        process.send_signal(number)
        process.communicate(timeout=40)
        assert process.returncode != 0
        eventually(lambda: not any(child.is_running() and child.status() != "zombie" for child in children), 10)
    finally:
        process.kill()
