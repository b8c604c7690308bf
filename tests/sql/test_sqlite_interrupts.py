"""What a signal's handler raises in the midst of a call, Ctrl-C say, leaves the file unlocked."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jobboard import BoardUnavailable, backend
from jobboard.backends.sql.connection_pool import ConnectionPool
from jobboard.backends.sql.sqlite.database import SqliteDatabase


def test_an_interrupt_that_comes_with_the_lock_leaves_the_file_unlocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_file = SqliteDatabase._lock_file

    def lock_and_interrupt(database: SqliteDatabase, cursor: sqlite3.Cursor) -> None:
        lock_file(database, cursor)
        raise KeyboardInterrupt

    path = tmp_path / "jobs.db"
    with backend("board", f"sqlite:///{path}") as board:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(SqliteDatabase, "_lock_file", lock_and_interrupt)
            board.post("resize")
        with closing(sqlite3.connect(path, timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")
        board.post("resize")
        assert board.job_count == 1


def test_closing_waits_for_no_interrupted_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobboard.backends.sql.sqlite.database.MIN_QUEUE_TIMEOUT", 0.05)
    monkeypatch.setattr("jobboard.backends.sql.sqlite.database.READ_QUEUE_TIMEOUT", 0.05)
    database = SqliteDatabase(tmp_path / "jobs.db", "board", "FULL", 0.0, 5.0)
    # The traceback of an interrupt that comes as a block begins or ends keeps it as it is.
    reading, writing = database.read(), database.write()
    reading.__enter__()
    writing.__enter__()
    with pytest.raises(BoardUnavailable), database.read():
        pass
    database.close()
    del reading, writing


def test_an_interrupt_while_a_connection_is_looked_at_frees_its_place() -> None:
    ended = []

    def interrupted(connection: object) -> bool:
        raise KeyboardInterrupt

    pool = ConnectionPool(object, interrupted, ended.append, largest=1)
    first = pool.take()
    pool.give_back(first)
    with pytest.raises(KeyboardInterrupt):
        pool.take()
    assert ended == [first.connection]
    assert pool.take() is not first
