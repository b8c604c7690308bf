"""Named boards in a file ``jobboard.toml``, for programs and for the command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.command_line import as_json

from jobboard import NotFound, connect
from jobboard.cli.app import OK, REFUSED, USAGE, run
from jobboard.configuration import configuration

Write = Callable[[str], Path]

BOARDS = """
default = "orders"

[defaults]
retention = 60

[boards.orders]
uri = "sqlite:///{folder}/${{STORE}}.db"
name = "shop"
expiry = 7

[boards.mail]
uri = "sqlite:///{folder}/mail.db"
retention = 5
handlers = "helpers.chores:handlers"
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a configuration into the working folder's parent."""
    for variable in ("JOBBOARD_URI", "JOBBOARD_NAME", "JOBBOARD_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    monkeypatch.setenv("STORE", "one")

    def write(text: str) -> Path:
        path = tmp_path / "jobboard.toml"
        path.write_text(text.format(folder=tmp_path))
        return path

    return write


def test_a_program_connects_by_name(write: Write, tmp_path: Path) -> None:
    write(BOARDS)
    with connect() as orders, connect("mail", expiry=3) as mail:
        assert (orders.name, mail.name) == ("shop", "mail")
        assert ((tmp_path / "one.db").is_file(), (tmp_path / "mail.db").is_file()) == (True, True)
    settings = configuration()
    assert settings is not None
    assert settings.board().options == {"retention": 60, "expiry": 7}
    assert (settings.board("mail").options, settings.board("mail").handlers) == (
        {"retention": 5},
        "helpers.chores:handlers",
    )


def test_the_command_line_takes_a_name(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(BOARDS)

    def call(*arguments: str, status: int = OK) -> str:
        capsys.readouterr()
        assert run(list(arguments)) == status, capsys.readouterr().err
        out, err = capsys.readouterr()
        return out if status == OK else err

    call("post", "resize")
    call("--board", "mail", "post", "send")
    call("post", "write", "--board", "mail", "--name", "other")
    call("--board", f"sqlite:///{tmp_path}/plain.db", "post", "plain")
    for name, board, job in (("orders", "shop", "resize"), ("mail", "mail", "send")):
        assert [row["name"] for row in as_json(call("--board", name, "ls", "--json"))] == [job]
        with connect(name) as connected:
            assert (connected.name, connected.job_count) == (board, 1)
    assert "did you mean 'mail'" in call("--board", "mali", "ls", status=REFUSED)
    monkeypatch.chdir("/")
    assert "jobboard.toml" in call("ls", status=USAGE)
    assert "resize" in call("--config", str(path), "ls")
    monkeypatch.setenv("JOBBOARD_URI", f"sqlite:///{tmp_path}/plain.db")
    assert "resize" in call("--config", str(path), "ls")
    assert "resize" in call("ls", "--config", str(path))
    assert "send" in call("ls", "--board", "mail", "--config", str(path))
    assert "plain" in call("ls", "--board", f"sqlite:///{tmp_path}/plain.db", "--config", str(path))
    assert "none.toml" in call("--config", "none.toml", "ls", status=USAGE)
    monkeypatch.delenv("JOBBOARD_URI")
    monkeypatch.setenv("JOBBOARD_CONFIG", str(path))
    assert "send" in call("--board", "mail", "ls")
    assert "name the handlers" in call("conductor", status=USAGE)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("boards = 3", "boards must be a table"),
        ("[board.a]\nuri = 'memory'", "unknown key board; did you mean 'boards'"),
        ("[boards.a]\nuri = 'memory'\nretentoin = 3", "unknown key boards.a.retentoin; did you mean 'retention'"),
        ("[boards.a]\nname = 'a'", "boards.a.uri must be a text"),
        ("[boards.a]\nuri = 3", "boards.a.uri must be a text"),
        ("[boards.a]\nuri = 'memory'\nname = 3", "boards.a.name must be a text"),
        ("default = 'b'\n[boards.a]\nuri = 'memory'", "default names no board: 'b'"),
        ("[defaults]\nuri = 'memory'", "uri, uris and name belong to a board"),
        ("[boards.a]\nuri = 'redsi://x'", "did you mean redis"),
        ("[boards.a]\nuri = 'memory://${{NONE}}'", "a.uri: there is no NONE in the environment"),
        ("[boards", "is no TOML"),
    ],
)
def test_a_wrong_file_says_where_it_is_wrong(write: Write, text: str, fault: str) -> None:
    write(text)
    with pytest.raises(Exception, match=fault):
        connect("a")


def test_a_board_may_be_spread_over_several_stores(write: Write) -> None:
    write("""[boards.orders]\nuris = ["sqlite:///{folder}/a.db", "sqlite:///{folder}/${{STORE}}.db"]""")
    with connect() as board:
        board.post("resize")
        assert (board.store, board.name, board.job_count) == ("shards", "orders", 1)
    path = write("""[boards.orders]\nuris = []""")
    with pytest.raises(ValueError, match=r"boards\.orders\.uri must be a text"):
        connect(config=path)
    path = write("""[boards.orders]\nuri = "memory://"\nuris = ["memory://a"]""")
    with pytest.raises(ValueError, match=r"unknown key boards\.orders\.uris"):
        connect(config=path)


def test_one_board_is_the_default_and_of_several_one_must_be_named(write: Write) -> None:
    with pytest.raises(NotFound, match=r"there is no jobboard\.toml"):
        connect()
    write("[boards.a]\nuri = 'memory://$${{x'")
    with connect() as board:
        assert board.name == "a"
    write("[boards.a]\nuri = 'memory'\n[boards.b]\nuri = 'memory'")
    with pytest.raises(NotFound, match="name one of a, b"):
        connect()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_read_only_if_it_is_named(
    write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(BOARDS)
    os.chown(path, 65533, 65533)
    with pytest.raises(ValueError, match=f"{path} belongs to another user .*JOBBOARD_CONFIG={path}"):
        configuration()
    assert run(["ls"]) == USAGE
    assert str(path) in capsys.readouterr().err
    assert configuration(path) is not None
    monkeypatch.setenv("JOBBOARD_CONFIG", str(path))
    assert configuration() is not None


def test_a_file_that_everybody_may_write_is_read_only_if_it_is_named(write: Write) -> None:
    path = write(BOARDS)
    path.chmod(0o666)
    with pytest.raises(ValueError, match=f"{path} of .* may be written by everybody.*JOBBOARD_CONFIG={path}"):
        configuration()
    assert configuration(path) is not None
    path.chmod(0o664)
    assert configuration() is not None
