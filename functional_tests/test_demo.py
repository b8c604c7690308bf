"""The demo on real trees, checked by the real ``sha256sum``."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
from harnesses.demo import COMMAND, ENVIRONMENT

from jobboard.testing import eventually

pytestmark = pytest.mark.turn_of("the demo")

#: Where it is about files, and not about who reads them.
ONE = ("--conductors", "1", "--no-kill")


def demo(cwd: Path, *arguments: str | bytes) -> subprocess.CompletedProcess[str]:
    pipes: dict[str, Any] = {"capture_output": True, "text": True, "errors": "replace"}
    done = subprocess.run([*COMMAND, *arguments], cwd=cwd, env=ENVIRONMENT, timeout=110, check=False, **pipes)
    assert "Traceback" not in done.stdout + done.stderr
    return done


def check(cwd: Path, file: str = "SHA256SUMS") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["sha256sum", "-c", "--strict", file], cwd=cwd, capture_output=True, timeout=60, check=False)


def test_five_thousand_files_and_a_killed_conductor(tmp_path: Path) -> None:
    for directory in range(50):
        (tmp_path / f"tree/{directory}").mkdir(parents=True)
        for number in range(100):
            (tmp_path / f"tree/{directory}/{number}").write_bytes(os.urandom(600))
    done = demo(tmp_path, "tree", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["jobs"], report["unreadable"]) == (0, 5_000, [])
    assert report["killed"] is not None
    assert report["taken_over"] > 0
    assert sum(report["owners"].values()) == 5_000
    checked = check(tmp_path)
    assert (checked.returncode, checked.stdout.count(b": OK\n")) == (0, 5_000)


def test_odd_names(tmp_path: Path) -> None:
    tree = os.fsencode(tmp_path / "tree")
    names = [
        b"plain", b"a space", b" leading", b"a\nnewline", b"a\rreturn", b"back\\slash", b"\\n", b"\xff\xfe",
        "ü".encode(), b"-dash", b"*", b"\x1b[31mred", b"\xffdir/a\nb", b"x" * 255,
    ]  # fmt: skip
    for name in names:
        path = os.path.join(tree, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(name)
    done = demo(tmp_path, "./tree", *ONE)
    assert (done.returncode, done.stderr) == (0, "")
    checked = check(tmp_path)
    assert (checked.returncode, checked.stdout.count(b": OK\n")) == (0, len(names))
    assert all(
        line.lstrip(b"\\")[66:].startswith(b"./tree/") for line in (tmp_path / "SHA256SUMS").read_bytes().splitlines()
    )
    assert demo(tmp_path, os.path.join(b"tree", b"\xffdir"), "-o", "odd", *ONE).returncode == 0
    assert check(tmp_path, "odd").returncode == 0


def test_what_cannot_be_read_is_shown_and_the_rest_is_done(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "good").write_text("good")
    (tree / "nowhere").symlink_to("/no/such/file")
    (tree / "failing").symlink_to("/proc/self/mem")  # opens, and then fails with EIO
    os.mkfifo(tree / "pipe")
    done = demo(tmp_path, "tree")
    assert done.returncode == 1
    assert sorted(done.stderr.splitlines()) == [
        "jobboard: tree/failing: can't be read: Input/output error",
        "jobboard: tree/nowhere: can't be read: No such file or directory",
    ]
    assert "3 jobs in" in done.stdout
    assert "skipped (links to directories, sockets, pipes, devices): 1" in done.stdout
    assert check(tmp_path).returncode == 0
    assert (tmp_path / "SHA256SUMS").read_text().endswith("  tree/good\n")
    assert len((tmp_path / "SHA256SUMS").read_text().splitlines()) == 1


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
        assert demo(tmp_path, ".", *ONE).returncode == 0
        assert check(tmp_path).stdout == b"./a: OK\n"


def test_another_board_and_another_output(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a").write_text("a")
    done = demo(tmp_path, "--board", "sqlite:///mine.db", "tree", "-o", "sums", *ONE)
    assert (done.returncode, check(tmp_path, "sums").returncode) == (0, 0)
    assert (tmp_path / "mine.db").exists()


@pytest.mark.parametrize("where", ["no/such/sums", ".", "tree"])
def test_an_output_that_cannot_be_is_refused_before_the_work(tmp_path: Path, where: str) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a").write_text("a")
    done = demo(tmp_path, "tree", "-o", where)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)


def test_a_module_of_a_known_name_in_the_present_directory_harms_nobody(tmp_path: Path) -> None:
    (tmp_path / "hashlib.py").write_text("1 / 0")
    (tmp_path / "click.py").write_text("1 / 0")
    done = demo(tmp_path, ".")
    assert (done.returncode, done.stderr) == (0, "")
    assert check(tmp_path).returncode == 0


def interrupted(cwd: Path, number: int) -> tuple[int, str, list[psutil.Process]]:
    """Run a demo on much work, and send it a signal once its conductors are there."""
    (cwd / "tree").mkdir()
    for name in range(3000):
        (cwd / f"tree/{name}").write_bytes(b"x" * 2000)
    command = [*COMMAND, "--board", "sqlite:///s%65cret.db", "tree"]
    process = subprocess.Popen(
        command, cwd=cwd, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:

        def conductors() -> list[psutil.Process]:
            found = psutil.Process(process.pid).children(recursive=True)
            return found if len(found) == 3 and all("conductor" in child.cmdline() for child in found) else []

        children = eventually(conductors, 90)
        assert not any("cret.db" in argument for child in children for argument in child.cmdline()), "may hold secrets"
        process.send_signal(number)
        _, told = process.communicate(timeout=40)
        return process.returncode, told, children
    finally:
        process.kill()
        process.communicate()


def none_is_left(processes: list[psutil.Process]) -> bool:
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_leaves_no_process_behind(tmp_path: Path, number: int) -> None:
    status, told, conductors = interrupted(tmp_path, number)
    assert none_is_left(conductors)
    assert status == 130
    assert (told.startswith("jobboard: interrupted; "), told.count("\n")) == (True, 1)
    assert not (tmp_path / "SHA256SUMS").exists()


def test_a_killed_demo_leaves_no_process_behind(tmp_path: Path) -> None:
    status, _, conductors = interrupted(tmp_path, signal.SIGKILL)
    assert status == -signal.SIGKILL
    try:
        eventually(lambda: none_is_left(conductors), 90)
    finally:
        for conductor in conductors:
            with contextlib.suppress(psutil.NoSuchProcess):
                conductor.kill()
