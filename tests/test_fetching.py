"""From a URI, a name or a dict to a board."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from jobboard import JobBoard, UnknownBackend, backend, fetch


def test_a_uri_a_name_and_a_dict_are_the_same_board() -> None:
    with backend("one", "memory://fetching") as board:
        job = board.post("a")
        confs: list[Any] = [{"board": "memory", "host": "fetching"}, {"board": "memory://fetching"}]
        for conf in confs:
            with backend("one", conf) as other:
                assert other.get(job.uuid) == job
        with backend("one", "memory") as elsewhere:
            assert elsewhere.job_count == 0


def test_boards_of_different_names_share_nothing(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/jobs.db"
    with backend("one", uri) as one, backend("two", uri) as two:
        one.post("a", key="k")
        two.post("a", key="k")
        two.pause()
        assert len(one.claim_next("alice", limit=5)) == 1
        assert two.claim_next("alice") == []
        assert (one.paused(), one.stats().claimed, two.stats().claimed) == (set(), 1, 0)


def test_the_path_of_a_uri_is_honoured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for conf in ("sqlite:///relative.db", f"sqlite:///{tmp_path}/absolute.db", "sqlite:///a%20space.db"):
        with backend("jobs", conf) as board:
            board.post("a")
    assert {file.name for file in tmp_path.glob("*.db")} == {"relative.db", "absolute.db", "a space.db"}


def test_options_come_from_the_query_the_dict_and_the_arguments(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/jobs.db?expiry=7&synchronous=normal"
    with backend("jobs", uri) as board:
        job = board.post("a")
        board.claim(job, "alice")
        assert 5 < (job.expires_in() or 0) <= 7
    with backend("jobs", uri, expiry=100) as board:
        job = board.post("a")
        board.claim(job, "alice")
        assert 90 < (job.expires_in() or 0) <= 100


@pytest.mark.parametrize(
    ("conf", "store"),
    [
        ("postgresql+psycopg2://user:p%40ss@db.example.org:5433/shop?sslmode=verify-full", "postgresql"),
        ("postgresql+psycopg://db.example.org/shop", "postgresql"),
        ("postgresql+asyncpg://db.example.org/shop", "postgresql"),
        ("mysql+mysqldb://db.example.org/shop?charset=utf8mb4", "mysql"),
        ("mariadb+pymysql://db.example.org/shop", "mysql"),
        ({"board": "mysql+pymysql", "host": "db.example.org", "path": "shop"}, "mysql"),
        ("sqlite+aiosqlite:///jobs.db", "sqlite"),
    ],
)
def test_uris_may_be_as_sqlalchemy_writes_them(conf: Any, store: str) -> None:
    assert fetch("jobs", conf).store == store


@pytest.mark.parametrize(
    ("uri", "near"),
    [
        ("postgressql://host/db", "postgresql"),
        ("postgresql+psycopg3://host/db", "postgresql"),
        ("reddis://host", "redis"),
        ("zokeeper://host", "zookeeper"),
        ("sqlite3:///jobs.db", "sqlite"),
    ],
)
def test_an_unknown_scheme_says_what_is_near(uri: str, near: str) -> None:
    with pytest.raises(UnknownBackend, match=f"did you mean {near}[?]; there are: "):
        fetch("jobs", uri)


def test_a_scheme_that_is_near_none_says_which_there_are() -> None:
    with pytest.raises(UnknownBackend, match="unknown: 'https'; there are: ") as caught:
        fetch("jobs", "https://host/db")
    stores = re.sub(r" \(or [^)]*\)", "", str(caught.value).split(": ")[-1].split("; ")[0]).split(", ")
    known = ["etcd", "memory", "mysql", "postgresql", "redis", "shards", "sqlite", "zookeeper"]
    assert stores == known, "each store once"
    assert "redis (or redis+cluster, redis+sentinel, rediss, unix)" in str(caught.value)


@pytest.mark.parametrize(
    ("conf", "options"),
    [
        ("memory://?colour=red", {}),
        ("memory://", {"colour": "red"}),
        ({"board": "memory", "colour": "red"}, {}),
        ("memory://?expiry=soon", {}),
        ("memory://?expiry=0", {}),
        ("memory://?retention=-1", {}),
        ("memory://host:1", {}),
        ("memory:///path", {}),
        ("sqlite:///x.db?synchronous=SOMETIMES", {}),
        ("sqlite:///x.db?expiry=1&expiry=2", {}),
        ("sqlite://host/x.db", {}),
        ("mysql://host/x?charset=latin1", {}),
        ("sqlite://", {}),
        ("sqlite:///:memory:", {}),
        ("memory://host:port", {}),
        ("memory://", {"expiry": 10**400}),
        ("memory://", {"largest_details": math.inf}),
        ({}, {}),
        ({"host": "a"}, {}),
    ],
)
def test_what_makes_no_sense_is_a_value_error(conf: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError) as caught:
        fetch("jobs", conf, **options)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("conf", [None, 3, ["memory://"], b"memory://"])
def test_what_is_no_conf_is_a_type_error(conf: Any) -> None:
    with pytest.raises(TypeError):
        fetch("jobs", conf)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 256])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError):
        fetch(name, "memory://")


def test_an_unknown_backend_lists_the_known_ones() -> None:
    for conf in ("rabbit://h", "rabbit", {"board": "rabbit"}):
        with pytest.raises(UnknownBackend, match=r"memory.*sqlite"):
            fetch("jobs", conf)


def test_a_board_shows_no_secret() -> None:
    board: JobBoard = fetch("jobs", "memory://a")
    assert repr(board) == "<JobBoard 'jobs' on memory, closed>"
    assert repr(board.schedules) == "<Schedules of board 'jobs'>"
    with pytest.raises(UnknownBackend) as caught:
        fetch("jobs", "rabbit://me:secret@host/")
    assert "secret" not in str(caught.value)
