"""The demo's parts: the walk, the format of the sums, and the output file. The whole of it is a functional test."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from demo.__main__ import demo
from demo.crew import Crew, Member
from demo.interrupts import all_like_ctrl_c, put_off
from demo.sums import check_output, line_of, write_sums
from demo.tree import Tree

from jobboard import JobBoard, JobBoardError
from jobboard.cli.app import REFUSED, run
from jobboard.testing import eventually

pytest_plugins = ("helpers.command_fixtures",)


class TestTree:
    def test_files_in_order_as_the_directory_was_given(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        for name in ("d/b", "d/a", "d/e/x", "d/c/y"):
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).touch()
        assert list(Tree("d", Path("out")).files()) == [b"d/a", b"d/b", b"d/c/y", b"d/e/x"]
        assert next(Tree("./d/", Path("out")).files()) == b"./d/a"

    def test_links(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        (tmp_path / "link").symlink_to("file")
        (tmp_path / "dangling").symlink_to("nowhere")
        (tmp_path / "loop").symlink_to(".")
        tree = Tree(str(tmp_path), tmp_path / "out")
        assert [os.path.basename(path) for path in tree.files()] == [b"dangling", b"file", b"link"]
        assert tree.skipped == 1

    def test_what_is_no_file_is_skipped(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(tmp_path / "socket"))
            tree = Tree(str(tmp_path), tmp_path / "out")
            assert (list(tree.files()), tree.skipped) == ([], 2)

    def test_the_output_is_left_out_but_nothing_else(self, tmp_path: Path) -> None:
        (tmp_path / "out").touch()
        (tmp_path / "other").touch()
        (tmp_path / "to-out").symlink_to("out")
        os.link(tmp_path / "out", tmp_path / "hard")
        found = {os.path.basename(path) for path in Tree(str(tmp_path), tmp_path / "out").files()}
        assert found == {b"other", b"hard"}

    def test_a_directory_that_cannot_be_listed(self, tmp_path: Path) -> None:
        tree = Tree(str(tmp_path / "gone"), tmp_path / "out")
        assert list(tree.files()) == []
        assert tree.unreadable == [(os.fsencode(tmp_path / "gone"), "No such file or directory")]


class TestSums:
    @pytest.mark.parametrize("name", [b"a b", b"a\nb", b"a\\b", b"a\rb", b"\\\\n", b"\xff", b" a ", b"-"])
    def test_a_line_is_what_sha256sum_reads(self, tmp_path: Path, name: bytes) -> None:
        path = os.path.join(b"d", name)
        (tmp_path / "d").mkdir()
        with open(os.path.join(os.fsencode(tmp_path), path), "wb") as file:
            file.write(b"x")
        digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
        write_sums(tmp_path / "sums", [line_of(digest, path)])
        done = subprocess.run(
            ["sha256sum", "-c", "--strict", "--quiet", "sums"], cwd=tmp_path, capture_output=True, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")

    def test_it_is_written_as_a_whole_or_not_at_all(self, tmp_path: Path) -> None:
        (tmp_path / "sums").write_text("old")

        def lines() -> object:
            yield b"new"
            raise RuntimeError("boom")

        with pytest.raises(RuntimeError):
            write_sums(tmp_path / "sums", lines())  # type: ignore[arg-type]
        assert (tmp_path / "sums").read_text() == "old"
        assert os.listdir(tmp_path) == ["sums"]

    def test_it_has_the_permissions_of_any_new_file(self, tmp_path: Path) -> None:
        write_sums(tmp_path / "sums", [])
        (tmp_path / "plain").touch()
        assert (tmp_path / "sums").stat().st_mode == (tmp_path / "plain").stat().st_mode

    def test_links_and_pipes_stay_what_they_are(self, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to("target")
        write_sums(tmp_path / "link", [b"1"])
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "target").read_bytes() == b"1"
        write_sums(Path("/dev/null"), [b"2"])
        assert Path("/dev/null").is_char_device()

    def test_an_output_that_cannot_be(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        for where in (tmp_path, tmp_path / "no/such", tmp_path / "file/below"):
            with pytest.raises(JobBoardError, match="director"):
                check_output(where)
        check_output(tmp_path / "new")


def test_a_board_within_this_process_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([str(tmp_path), "--board", "memory://", "-o", str(tmp_path / "x")], root=demo) == REFUSED
    assert "several" in capsys.readouterr().err


class TestInterrupts:
    def test_they_are_put_off_to_the_end_of_the_block(self) -> None:
        done = []
        with pytest.raises(KeyboardInterrupt), put_off():
            signal.raise_signal(signal.SIGINT)
            done.append("all")
        assert done == ["all"]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
    def test_others_are_like_ctrl_c(self, number: int) -> None:
        before = signal.getsignal(number)
        with pytest.raises(KeyboardInterrupt), all_like_ctrl_c(), put_off():
            signal.raise_signal(number)
        assert signal.getsignal(number) == before


class TestKilling:
    @pytest.fixture
    def crew(self, uri: str, board: JobBoard) -> Iterator[Crew]:
        """A crew of one, who only sleeps; what it holds is claimed for it."""
        crew = Crew(uri, board, 1, 1)
        process = subprocess.Popen(["sleep", "1000"])
        with tempfile.TemporaryFile() as log:
            crew.members.append(Member("demo-1", process, log, owner="sleeper"))
            yield crew
            crew.__exit__()
        assert process.poll() is not None

    def test_only_who_holds_something_is_killed(self, crew: Crew, board: JobBoard) -> None:
        (member,) = crew.members
        jobs = [board.post("a") for _ in range(3)]
        board.claim(jobs[0], "another")
        assert crew.kill_one() is None
        assert is_awake(member.process.pid)
        for job in jobs[1:]:
            board.claim(job, "sleeper")
        assert crew.kill_one() == {job.uuid for job in jobs[1:]}
        assert (member.killed, member.process.poll()) == (True, -signal.SIGKILL)
        assert crew.kill_one() is None

    def test_nobody_is_left_stopped_when_the_board_cannot_be_read(self, crew: Crew, board: JobBoard) -> None:
        board.close()
        assert crew.kill_one() is None
        assert is_awake(crew.members[0].process.pid)

    def test_a_crew_that_has_ended_says_why(self, crew: Crew) -> None:
        (member,) = crew.members
        member.log.write(b"first\njobboard: the disk is full\n")
        crew.check()
        member.process.kill()
        member.process.wait()
        with pytest.raises(JobBoardError, match="the disk is full"):
            crew.check()


def is_awake(pid: int) -> bool:
    eventually(lambda: psutil.Process(pid).status() != psutil.STATUS_STOPPED)
    return psutil.pid_exists(pid)
