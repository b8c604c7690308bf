"""A board's file that is moved, replaced or deleted under it: nothing is done to one that nobody will read."""

from __future__ import annotations

import logging
import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers.forks import FORKS, in_child

from jobboard import BoardUnavailable, Conductor, Handlers, JobBoard, JobBoardError, backend, fetch
from jobboard.testing.deadline import DEADLINE, eventually

MAKERS = 4

handlers = Handlers()
handlers.handler("resize")(lambda job: None)


def deleted(path: Path) -> None:
    path.rename(path.with_suffix(".old"))


def replaced(path: Path) -> None:
    with backend("board", f"sqlite:///{path}.new") as other:
        other.post("of the other file")
    path.rename(path.with_suffix(".old"))
    Path(f"{path}.new").rename(path)


CALLS: dict[str, Callable[[JobBoard], object]] = {
    "post": lambda board: board.post("resize"),
    "claim": lambda board: board.claim_next("alice"),
    "stats": lambda board: board.stats(),
    "list": lambda board: list(board.iterjobs()),
    "wait": lambda board: list(board.wait(0.1)),
}


@pytest.mark.parametrize("damage", [deleted, replaced])
@pytest.mark.parametrize("call", CALLS)
def test_no_call_goes_to_a_file_that_is_not_there_any_more(
    call: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "jobs.db"
    with backend("board", f"sqlite:///{path}") as board:
        job = board.post("resize")
        damage(path)
        with pytest.raises(BoardUnavailable, match="was moved, replaced or deleted while it was open"):
            CALLS[call](board)
        path.with_suffix(".old").replace(path)
        assert [one.uuid for one in board.iterjobs()] == [job.uuid]


def test_a_file_is_opened_by_one_name_only_if_the_others_are_hard_links(tmp_path: Path) -> None:
    path, hard, soft = (tmp_path / name for name in ("jobs.db", "hard.db", "soft.db"))
    with backend("board", f"sqlite:///{path}") as board:
        job = board.post("resize")
        soft.symlink_to(path)
        with backend("board", f"sqlite:///{soft}") as other:
            assert list(other.iterjobs()) == [job]
        hard.hardlink_to(path)
        with pytest.raises(BoardUnavailable, match="has 2 names"), backend("board", f"sqlite:///{hard}"):
            pass
        board.post("resize")
    hard.unlink()
    with backend("board", f"sqlite:///{path}") as board:
        assert board.job_count == 2


MOUNTED = """
import sys
from jobboard import BoardUnavailable, fetch

whole, single = (f"sqlite:///{path}" for path in sys.argv[1:])
with fetch("board", whole) as board:
    board.post("resize")
    for create in (True, False):
        try:
            fetch("board", single, create=create).connect()
        except BoardUnavailable as error:
            assert "mount its folder instead" in str(error), error
        else:
            raise AssertionError("it was opened by another name")
    assert board.job_count == 1
"""


def in_own_mounts(script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script whose mounts nobody else sees, and which end with it."""
    command = ["unshare", "--map-root-user", "--mount", "sh", "-ec", script]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of mounts")
def test_a_folder_may_be_mounted_but_no_single_file(tmp_path: Path) -> None:
    """As by ``docker run -v ./jobs.db:/data/jobs.db``: SQLite would keep a log beside each of the two names."""
    if in_own_mounts(f"mount --bind {tmp_path} {tmp_path}").returncode:
        pytest.skip("this user may mount nothing")
    whole, single = tmp_path / "the whole", tmp_path / "a single.db"
    source = tmp_path / "volume"
    source.mkdir()
    whole.mkdir()
    single.touch()
    with backend("board", f"sqlite:///{source}/jobs.db"):
        pass
    script = f"""
        mount --bind {source} '{whole}'
        mount --bind {source}/jobs.db '{single}'
        exec {sys.executable} -c '{MOUNTED}' '{whole}/jobs.db' '{single}'
    """
    done = in_own_mounts(script)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mode", [None, 0o600])
@pytest.mark.parametrize("is_empty", [False, True])
def test_no_file_is_made_beside_the_log_of_one_that_was_moved(tmp_path: Path, is_empty: bool, mode: int | None) -> None:
    path, moved, link = (tmp_path / name for name in ("jobs.db", "moved.db", "link.db"))
    link.symlink_to(path)
    with backend("board", f"sqlite:///{path}") as board:
        jobs = [board.post("resize") for _ in range(3)]
        path.rename(moved)
        if is_empty:
            path.touch()
        for other in (fetch("board", f"sqlite:///{link}", mode=mode or 0o644), fetch("board", f"sqlite:///{path}")):
            with pytest.raises(BoardUnavailable, match="move that file back, or remove .*jobs.db-wal if"):
                other.connect()
        with pytest.raises(JobBoardError):
            fetch("board", f"sqlite:///{path}", create=False).connect()
        assert path.exists() == is_empty
    moved.rename(path)
    with backend("board", f"sqlite:///{path}") as board:
        assert list(board.iterjobs()) == jobs
    path.unlink()
    with backend("board", f"sqlite:///{path}") as board:
        assert board.job_count == 0


@FORKS
def test_several_processes_may_make_one_file_at_the_same_time(tmp_path: Path) -> None:
    """The log that another one has just made is no reason to refuse."""
    together = multiprocessing.get_context("fork").Barrier(MAKERS)
    uris = [f"sqlite:///{tmp_path}/{number}.db" for number in range(20)]

    def make() -> None:
        for uri in uris:
            together.wait(DEADLINE)
            with backend("board", uri) as board:
                board.post("resize")

    with ThreadPoolExecutor(MAKERS) as threads:
        assert list(threads.map(lambda _: in_child(make), range(MAKERS))) == [0] * MAKERS
    for uri in uris:
        with backend("board", uri) as board:
            assert board.job_count == MAKERS


def test_a_conductor_says_it_once_and_goes_on_when_the_file_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "jobs.db"
    with backend("board", f"sqlite:///{path}") as board:
        conductor = Conductor("worker", board, handlers)
        conductor.start()
        with caplog.at_level(logging.DEBUG, "jobboard"):
            deleted(path)
            eventually(lambda: sum("can't see what" in text for text in caplog.messages) > 2)
        warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
        assert len(warnings) == 2, "the conductor, and what listens to other processes"
        assert not path.exists(), "nobody made another one"
        path.with_suffix(".old").rename(path)
        assert board.post("resize").wait(30)
        assert conductor.stop(timeout=10)
