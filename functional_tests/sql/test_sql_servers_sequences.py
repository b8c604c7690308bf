"""Sequences that are behind the rows: after a restore of single tables, or by logical replication."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from harnesses.sql_site import Site

from jobboard import BoardUnavailable, JobBoard, Posting, fetch
from jobboard.cli.app import run
from jobboard.operate.doctor import examine

pytest_plugins = ("harnesses.sql_fixtures",)

LONG = 600.0
_TABLES = ("boards", "jobs", "journal")


@pytest.fixture
def uri(site: Site) -> str:
    """Tables of the case's own."""
    schema = f"&schema=s{uuid4().hex[:8]}" if site.is_postgresql else ""
    return f"{site.server.uri}?prefix=p{uuid4().hex[:8]}_{schema}"


@pytest.fixture
def board(uri: str) -> Iterator[JobBoard]:
    with fetch("orders", uri) as board:
        _open("bills", uri)
        for name, priority in (("resize", "normal"), ("crop", "high"), ("send", "low")):
            board.post_many([Posting(name, priority=priority), Posting(name, priority=priority)])
        board.consume(board.claim_next("alice", expiry=LONG)[0], "alice")
        board.trash(board.claim_next("alice", expiry=LONG)[0], "alice")
        board.claim_next("alice", expiry=LONG)
        board.post("later", delay=LONG)
        yield board


def _open(name: str, uri: str) -> None:
    with fetch(name, uri):
        pass


def _table(board: JobBoard, name: str) -> str:
    names = board._backend.database.driver.dialect.table_names  # type: ignore[attr-defined]
    return str(names.table(name))


def _restart(site: Site, board: JobBoard, *tables: str, at: int = 1) -> None:
    for name in tables:
        table = _table(board, name)
        if site.is_postgresql:
            site.run(f"ALTER SEQUENCE {table}_id_seq RESTART WITH {at}")
        else:
            site.run(f"ALTER TABLE {table} AUTO_INCREMENT = {at}")


def _use(board: JobBoard) -> None:
    """Post, claim and end; what is posted last is last in order."""
    posted = [board.post("use") for _ in range(3)]
    assert [job.sequence for job in posted] == sorted(job.sequence for job in posted)
    assert posted[0].sequence > max((job.sequence for job in board.iterjobs() if job.name != "use"), default=0)
    jobs = board.claim_next("bob", names=["use"], limit=3, expiry=LONG)
    assert board.consume_many(jobs, "bob") == [None] * 3


def test_a_server_that_counts_by_the_rows_goes_on_after_them(site: Site, uri: str, board: JobBoard) -> None:
    if site.is_postgresql:
        pytest.skip("its sequences are apart from the rows")
    _restart(site, board, *_TABLES)
    _use(board)
    with fetch("new", uri) as new:
        _use(new)


@pytest.mark.parametrize("tables", [("boards",), ("jobs",), ("journal",), _TABLES], ids="-".join)
def test_what_is_behind_is_told_by_check_and_doctor_and_mended_by_migrate(
    site: Site, uri: str, board: JobBoard, tables: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    if not site.is_postgresql:
        pytest.skip("it counts by the rows")
    assert (board.audit(), _complaints(uri)) == ([], [])
    _restart(site, board, *tables)
    found = [(finding.uuid, finding.repaired) for finding in board.audit(repair=True)]
    assert found == [(None, False)] * len(tables)
    texts = [finding.problem for finding in board.audit()]
    assert _complaints(uri) == texts
    for text, table in zip(texts, tables, strict=True):
        assert f"{table}_id_seq" in text
        assert "jobboard migrate" in text
    assert run(["doctor", "--board", uri, "--name", "orders"]) == 1
    capsys.readouterr()
    assert run(["migrate", "--board", uri, "--json"]) == 0
    assert [name.rpartition(".")[2] for name in json.loads(capsys.readouterr().out)["mended"]] == [
        f"{_table(board, table).rpartition('.')[2]}_id_seq" for table in tables
    ]
    assert (board.audit(), _complaints(uri)) == ([], [])
    _use(board)
    _open("new", uri)
    assert run(["migrate", "--board", uri, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mended"] == []


def test_the_sequence_that_is_ahead_stays_where_it_is(site: Site, uri: str, board: JobBoard) -> None:
    if not site.is_postgresql:
        pytest.skip("it counts by the rows")
    _restart(site, board, *_TABLES, at=1000)
    fetch("orders", uri).migrate()
    assert board.post("use").sequence >= 1000


FAILING: dict[str, tuple[str, Callable[[str, JobBoard], Any]]] = {
    "connect to a new board": ("boards", lambda uri, _: _open("new", uri)),
    "post": ("journal", lambda _, board: board.post("use")),
    "post of many": ("journal", lambda _, board: board.post_many([Posting("use", key=str(n)) for n in range(3)])),
    "claim_next": ("journal", lambda _, board: board.claim_next("bob")),
    "consume": ("journal", lambda _, board: board.consume(board.claim_next("bob")[0], "bob")),
    "trash": ("journal", lambda _, board: board.trash(next(board.iterjobs()), by="bob")),
    "pause": ("journal", lambda _, board: board.pause("resize")),
}


@pytest.mark.parametrize("what", FAILING)
def test_the_error_names_the_cure_at_once(site: Site, uri: str, board: JobBoard, what: str) -> None:
    if not site.is_postgresql:
        pytest.skip("it counts by the rows")
    table, act = FAILING[what]
    _restart(site, board, table)
    statements = _statements(site)
    with pytest.raises(BoardUnavailable, match="sequence.*jobboard migrate"):
        act(uri, board)
    # It is not tried again and again for 10 s.
    assert _statements(site) - statements < 40


def _statements(site: Site) -> int:
    """How many transactions the server has undone."""
    site.run("SELECT pg_stat_force_next_flush()")
    return int(site.run("SELECT xact_rollback FROM pg_stat_database WHERE datname = 'jobs'")[0][0])


def _complaints(uri: str) -> list[str]:
    return [each.text for each in examine(fetch("orders", uri)) if each.well is False]
