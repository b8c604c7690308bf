"""A board's file that is moved, replaced or deleted under it: nothing is done to one that nobody will read."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from jobboard import BoardUnavailable, Conductor, Handlers, JobBoard, backend
from jobboard.testing import eventually

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
