"""A file or a board that is not there: commands that have no use for a new one refuse it, and make nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from helpers.command_line import Run

from jobboard import BoardUnavailable, Entity, JobBoard, NotFound, fetch
from jobboard.cli.app import run

pytest_plugins = ("helpers.command_fixtures",)

LOOKING = [
    ["ls"], ["show", "3f2a"], ["why", "3f2a"], ["owners"], ["entities"], ["stats"], ["watch", "--for", "0.1"],
    ["trashed"], ["check"], ["release", "3f2a"], ["trash", "3f2a"], ["purge", "--all", "--yes"], ["resume"],
    ["cancel", "3f2a"], ["schedule", "ls"], ["schedule", "show", "s"], ["schedule", "export"],
]  # fmt: skip


def boards_in(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM jobboard_boards ORDER BY name")]


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
def test_a_mistyped_file_is_refused(jobboard: Run, tmp_path: Path, command: list[str]) -> None:
    before = sorted(tmp_path.iterdir())
    told = jobboard("--board", f"sqlite:///{tmp_path}/jbos.db", *command, status=1)
    assert f"there is no file {tmp_path}/jbos.db" in told
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("command", LOOKING, ids=" ".join)
def test_a_mistyped_name_is_refused(jobboard: Run, tmp_path: Path, command: list[str]) -> None:
    told = jobboard("--name", "tset", *command, status=1)
    assert told == "jobboard: there is no board 'tset' in this store; there are: 'test'\n"
    assert boards_in(tmp_path / "jobs.db") == ["test"]


@pytest.mark.parametrize(
    "command",
    [["post", "a"], ["pause"], ["schedule", "add", "s", "a", "--every", "1h"]],
    ids=" ".join,
)
def test_what_puts_something_there_makes_the_board_and_says_so(
    jobboard: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    where = ["--board", f"sqlite:///{tmp_path}/new.db", "--name", "new"]
    assert run([*where, *command]) == 0
    assert capsys.readouterr().err.endswith("; 'new' is created now\n")
    assert boards_in(tmp_path / "new.db") == ["new"]
    jobboard(*where, "ls")


@pytest.mark.parametrize("content", [b"", b"no database"])
def test_a_file_without_boards_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "odd name?.db"
    file.write_bytes(content)
    with pytest.raises(NotFound if not content else BoardUnavailable, match="no boards" if not content else "database"):
        fetch("a", {"board": "sqlite", "path": f"/{file}", "create": False}).connect()
    assert (file.read_bytes(), list(tmp_path.iterdir())) == (content, [file])


def test_a_board_that_is_there_is_opened_also_without_the_right_to_make_it(uri: str, board: JobBoard) -> None:
    job = board.post("a")
    with fetch("test", f"{uri}&create=false") as same:
        assert same.get(job.uuid) == job
    with pytest.raises(NotFound, match="there are: 'test'"):
        fetch("another", f"{uri}&create=false").connect()


def test_an_error_names_some_boards_of_many(uri: str) -> None:
    for number in range(22):
        with fetch(f"b{number:02}", uri):
            pass
    with pytest.raises(NotFound, match="'b00', .*'b19' and 3 more"):
        fetch("another", uri, create=False).connect()


def test_a_new_board_is_told_with_those_that_there_are(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("shop", "mail"):
        assert run(["--name", name, "post", "a"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "there is no board 'shop' in this store; there are: 'test'; 'shop' is created now"
    assert "'shop', 'test'" in told[1]


def test_a_post_that_nobody_will_run_is_told(
    jobboard: Run, board: JobBoard, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobboard("post", "cuont")
    for name in ("count", "mail", "resize"):
        board.register_entity(Entity("conductor", name, {"names": [name]}))
        jobboard("post", name)
    for command in (["post", "cuont"], ["--json", "post", "cuont"]):
        assert run(command) == 0
        out, err = capsys.readouterr()
        assert "no conductor that is alive has a handler for 'cuont'" in err
        assert out

    def unavailable(_: object) -> list[Entity]:
        raise BoardUnavailable("the store is away")

    monkeypatch.setattr(JobBoard, "entities", unavailable)
    jobboard("post", "cuont")


@pytest.mark.parametrize(
    "command",
    [
        ["import", "FILE"], ["post", "a", "--details", "@FILE"], ["limits", "apply", "FILE"],
        ["schedule", "import", "FILE"], ["serve", "--auth", "FILE"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_file_that_is_not_utf_8_is_named(jobboard: Run, board: JobBoard, tmp_path: Path, command: list[str]) -> None:
    file = tmp_path / "latin-1.txt"
    file.write_bytes(b"caf\xe9:\xff")
    assert str(file) in jobboard(*(word.replace("FILE", str(file)) for word in command), status=2)
    assert list(board.iterjobs()) == []
