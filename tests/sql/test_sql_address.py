"""Where an SQLite board is, and which options it takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.sql_seam import opened, post

from jobboard.backends.address import Address
from jobboard.backends.sql import SqliteBackend


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("sqlite://", "name a file"),
        ("sqlite:///", "name a file"),
        ("sqlite:///:memory:", "memory://"),
        ("sqlite://host/jobs.db", "has no host"),
        ("sqlite://host:99/jobs.db", "has no host"),
        ("sqlite://me:secret@/jobs.db", "has no host"),
        ("sqlite:///a%00b.db", "NUL"),
    ],
)
def test_an_address_that_is_no_file_is_refused(uri: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        SqliteBackend("board", Address.parse(uri))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("synchronous", "SOMETIMES"),
        ("synchronous", 1),
        ("busy_timeout", "-1"),
        ("busy_timeout", "nan"),
        ("busy_timeout", "inf"),
        ("busy_timeout", "soon"),
    ],
)
def test_a_bad_option_is_refused(option: str, value: object) -> None:
    with pytest.raises(ValueError):
        SqliteBackend.options[option](value)


def test_options_are_made_of_text() -> None:
    assert SqliteBackend.options["synchronous"]("normal") == "NORMAL"
    assert SqliteBackend.options["busy_timeout"]("2.5") == 2.5


def test_a_relative_file_stays_the_same_one_when_the_process_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    backend = SqliteBackend("board", Address.parse("sqlite:///jobs.db"))
    monkeypatch.chdir(elsewhere)
    backend.open(5.0)
    post(backend)
    backend.close()
    assert (tmp_path / "jobs.db").exists()
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("name", ["with space.db", "a?mode=ro&x#y.db", "100%25.db", "ümläut.db", "file:jobs.db"])
def test_any_name_of_a_file_is_taken_as_it_is(tmp_path: Path, name: str) -> None:
    with opened(tmp_path / name) as backend:
        post(backend)
        assert backend.jobs.count() == 1
    assert (tmp_path / name).is_file()


@pytest.mark.parametrize(("synchronous", "number"), [("OFF", 0), ("NORMAL", 1), ("FULL", 2), ("EXTRA", 3)])
def test_synchronous_reaches_the_connection_that_writes(tmp_path: Path, synchronous: str, number: int) -> None:
    with opened(tmp_path / "jobs.db", synchronous=synchronous) as backend:
        assert backend.database._writer.get().execute("PRAGMA synchronous").fetchone() == (number,)
        assert backend.database._writer.get().execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_full_is_the_default(tmp_path: Path) -> None:
    backend = SqliteBackend("board", Address("sqlite", path=f"/{tmp_path}/jobs.db"))
    backend.open(5.0)
    assert backend.database._writer.get().execute("PRAGMA synchronous").fetchone() == (2,)
    backend.close()
