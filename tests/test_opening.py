"""``jobboard.open``: where it finds the board, as the command line does; and what it says when it finds none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest
from helpers.command_line import as_json

import jobboard
import jobboard.aio
from jobboard import BoardUnavailable, NotFound, UnknownBackend
from jobboard.cli.app import OK, run

BOARDS = """
default = "orders"

[boards.orders]
uri = "sqlite:///{folder}/one.db"
name = "shop"
retention = 7

[boards.mail]
uri = "sqlite:///{folder}/one.db"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("JOBBOARD_URI", "JOBBOARD_NAME", "JOBBOARD_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_boards(folder: Path) -> Path:
    path = folder / "jobboard.toml"
    path.write_text(BOARDS.format(folder=folder))
    return path


def test_a_board_is_open_and_the_block_closes_it() -> None:
    with jobboard.open("jobs", "sqlite:///jobs.db", retention=5) as board:
        assert (board.name, board.store, board.connected) == ("jobs", "sqlite", True)
        job = board.post("resize")
    assert not board.connected
    board = jobboard.open("jobs", {"board": "sqlite", "path": "jobs.db"})
    assert board.get(job.uuid) == job
    board.close()


#: What is given, what the environment has, and the name and the store of the board that it is.
CASES: list[tuple[tuple[Any, ...], dict[str, str], str, str]] = [
    (("jobs", "memory://"), {}, "jobs", "memory"),
    (("jobs", "memory"), {}, "jobs", "memory"),
    ((None, "memory://"), {}, "jobs", "memory"),
    ((None, "memory://"), {"JOBBOARD_NAME": "pictures"}, "pictures", "memory"),
    (("jobs", "memory://"), {"JOBBOARD_NAME": "pictures", "JOBBOARD_URI": "sqlite:///no.db"}, "jobs", "memory"),
    ((), {"JOBBOARD_URI": "memory://"}, "jobs", "memory"),
    ((), {"JOBBOARD_URI": "memory://", "JOBBOARD_NAME": "pictures"}, "pictures", "memory"),
    (("films",), {"JOBBOARD_URI": "memory://", "JOBBOARD_NAME": "pictures"}, "films", "memory"),
    (("films", "${STORE}://"), {"STORE": "memory"}, "films", "memory"),
    (("films", "@uri.txt"), {"STORE": "memory"}, "films", "memory"),
    ((), {"JOBBOARD_URI": "@uri.txt", "STORE": "memory"}, "jobs", "memory"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "environment", "name", "store"), CASES)
def test_arguments_win_over_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, given: tuple[Any, ...], environment: dict[str, str], name: str,
    store: str,
) -> None:  # fmt: skip
    (folder / "uri.txt").write_text("${STORE}://\n")
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    with jobboard.open(*given) as board:
        assert (board.name, board.store) == (name, store)


def test_a_board_of_the_configuration(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_boards(folder)
    with jobboard.open() as orders, jobboard.open("mail") as mail:
        assert (orders.name, mail.name) == ("shop", "mail")
    monkeypatch.setenv("JOBBOARD_NAME", "other")
    with jobboard.open() as other, jobboard.open("orders") as orders:
        assert (other.name, orders.name) == ("other", "shop")
    monkeypatch.setenv("JOBBOARD_URI", "memory://")
    with jobboard.open("mail") as in_memory, jobboard.open("mail", config=path) as mail:
        assert (in_memory.store, mail.store) == ("memory", "sqlite")
    monkeypatch.setenv("JOBBOARD_URI", "mail")
    monkeypatch.delenv("JOBBOARD_NAME")
    with jobboard.open() as mail:
        assert mail.name == "mail"
    with pytest.raises(NotFound, match="no board 'mial'; did you mean 'mail'"):
        jobboard.open("mial", config=path)


@pytest.mark.parametrize("environment", [{}, {"JOBBOARD_NAME": "mine"}, {"JOBBOARD_URI": "@uri.txt"}])
def test_a_program_and_the_command_line_find_the_same_board(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    environment: dict[str, str],
) -> None:
    write_boards(folder)
    (folder / "uri.txt").write_text(f"sqlite:///{folder}/two.db")
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    with jobboard.open() as board:
        job = board.post("resize")
    assert run(["ls", "--json"]) == OK
    assert [row["uuid"] for row in as_json(capsys.readouterr().out)] == [job.uuid]


def test_what_can_not_be_found_or_opened_says_what_to_write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for given in ((), ("jobs",), ("memory",)):
        with pytest.raises(NotFound, match=r'open\("jobs", "sqlite:///jobs.db"\), JOBBOARD_URI .* jobboard.toml'):
            jobboard.open(*given)
    with pytest.raises(ValueError, match="name comes first, then the URI") as raised:
        jobboard.open("redis://:secret@localhost")
    assert "secret" not in str(raised.value)
    with pytest.raises(UnknownBackend):
        jobboard.open("jobs", "no-such-store")
    with pytest.raises(ValueError, match="there is no NO_SUCH_VARIABLE in the environment"):
        jobboard.open("jobs", "sqlite:///${NO_SUCH_VARIABLE}.db")
    with pytest.raises(BoardUnavailable):
        jobboard.open("jobs", f"sqlite:///{folder}/none/jobs.db")
    with pytest.raises(OSError, match="none.txt"):
        jobboard.open("jobs", "@none.txt")
    assert os.listdir(folder) == []


def test_a_board_for_asyncio_is_awaited_or_entered() -> None:
    async def main() -> None:
        async with jobboard.aio.open("jobs", "sqlite:///jobs.db", retention=5) as board:
            assert board.connected
            job = await board.post("resize")
        assert not board.connected
        board = await jobboard.aio.open("jobs", "sqlite:///jobs.db")
        assert await board.get(job.uuid) == job
        await board.close()
        with pytest.raises(NotFound, match="nothing says where the board is"):
            jobboard.aio.open("jobs")

    anyio.run(main)
