"""How PostgreSQL tells other processes of commits: apart from the transactions, seldom, and in vain without harm."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from harnesses.sql_harness import PostgresqlHarness
from servers.postgresql_servers import PostgresqlServer

from jobboard import JobBoard, backend
from jobboard.backends.sql.commit_notifier import UNHEARD_INTERVAL
from jobboard.backends.sql.postgresql import change_source
from jobboard.backends.sql.postgresql.change_source import READ_INTERVAL
from jobboard.backends.sql.postgresql.driver import PostgresqlDriver
from jobboard.backends.sql.server_database import NOTIFY_INTERVAL, ServerDatabase
from jobboard.board import client_of
from jobboard.testing import eventually

pytest_plugins = ("harnesses.sql_fixtures",)

#: A program that posts and ends, and leaves its board open; and one that is killed before it notifies anybody.
_POSTS = "import sys, jobboard; b = jobboard.fetch(*sys.argv[1:]); b.connect(); b.post('resize')"
_NOTIFIES_NOBODY = "from jobboard.backends.sql.commit_notifier import CommitNotifier as C; C.request = lambda *_: None"


@pytest.fixture
def board(postgresql: PostgresqlServer) -> Iterator[JobBoard]:
    with PostgresqlHarness(postgresql.uri) as harness:
        yield harness.board()


@pytest.fixture
def listening(postgresql: PostgresqlServer, board: JobBoard) -> Iterator[psycopg.Connection[Any]]:
    """A plain connection that hears what the board's waiters hear."""
    with closing(postgresql.client()) as connection:
        connection.execute(change_source.listen(_database_of(board).channel).encode())
        yield connection


def _database_of(board: JobBoard) -> ServerDatabase:
    database: ServerDatabase = board._backend.database  # type: ignore[attr-defined]
    return database


def _is_notified(connection: psycopg.Connection[Any]) -> bool:
    return bool(list(connection.notifies(timeout=0.1, stop_after=1)))


def _post_in_a_program(board: JobBoard, uri: str, *before: str) -> None:
    program = "\n".join((*before, _POSTS))
    subprocess.run([sys.executable, "-c", program, board.name, uri], check=True, timeout=60, env=dict(os.environ))


def test_many_posts_notify_seldom_and_once_after_the_last(board: JobBoard, listening: psycopg.Connection[Any]) -> None:
    began = time.monotonic()
    threads = [threading.Thread(target=lambda: [board.post("resize") for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    # What was requested is sent before the board is closed.
    board.close()
    took = time.monotonic() - began
    received = len(list(listening.notifies(timeout=0.2)))
    assert 1 <= received <= took / NOTIFY_INTERVAL + 2


def test_a_channel_that_nobody_listens_to_is_seldom_asked_about(
    postgresql: PostgresqlServer, board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    notify = PostgresqlDriver.notify_at_once

    def count(driver: PostgresqlDriver, connection: Any, channel: str) -> bool:
        asked.append(notify(driver, connection, channel))
        return asked[-1]

    monkeypatch.setattr(PostgresqlDriver, "notify_at_once", count)
    with closing(postgresql.client()) as deaf:
        deaf.execute(f"LISTEN {_database_of(board).channel}")
        began = time.monotonic()
        for _ in range(100):
            board.post("resize")
        eventually(lambda: bool(asked))
        board.close()
        took = time.monotonic() - began
        assert not _is_notified(deaf)
    assert not any(asked)
    assert len(asked) <= took / UNHEARD_INTERVAL + 2


def test_who_begins_to_listen_is_notified_again(
    postgresql: PostgresqlServer, board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing but a notification says that something has changed.
    monkeypatch.setattr(change_source, "LOOK_INTERVAL", 60.0)
    database = _database_of(board)
    for _ in range(3):
        # Nobody listens to this one.
        board.post("resize")
        with closing(database.change_source()) as source:
            assert source.wait_for_news(False)
            board.post("resize")
            eventually(lambda: source.wait_for_news(False))


def test_a_program_that_ends_without_closing_its_board_notifies(
    postgresql: PostgresqlServer, board: JobBoard, listening: psycopg.Connection[Any]
) -> None:
    _post_in_a_program(board, postgresql.uri)
    eventually(lambda: _is_notified(listening))


def test_who_waits_finds_what_a_killed_program_has_posted(postgresql: PostgresqlServer, board: JobBoard) -> None:
    found: list[str] = []
    with client_of(board).waiter():
        # Only now nothing but a look finds what is posted from here on.
        assert list(board.wait(0.2)) == []
        waiting = threading.Thread(target=lambda: found.extend(job.name for job in board.wait(30)))
        waiting.start()
        _post_in_a_program(board, postgresql.uri, _NOTIFIES_NOBODY)
        waiting.join(30)
    assert found == ["resize"]


def test_a_post_in_a_transaction_of_ones_own_notifies_at_its_commit(
    postgresql: PostgresqlServer, board: JobBoard, listening: psycopg.Connection[Any]
) -> None:
    with closing(postgresql.client()) as connection:
        connection.autocommit = False
        board.post("resize", connection=connection)
        assert not _is_notified(listening)
        connection.commit()
    eventually(lambda: _is_notified(listening))


def test_a_server_that_refuses_the_connection_for_notifications_fails_no_post(
    postgresql: PostgresqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(postgresql.client()) as client:
        client.execute("CREATE DATABASE refusing")
        uri = postgresql.uri.replace("/jobs", "/refusing")
        with backend("refused", uri) as board, closing(postgresql.client("refusing")) as listening:
            listening.execute(change_source.listen(_database_of(board).channel).encode())
            client.execute("ALTER DATABASE refusing ALLOW_CONNECTIONS false")
            board.post("resize")
            eventually(lambda: "can't notify other processes, which look from time to time" in caplog.text)
            client.execute("ALTER DATABASE refusing ALLOW_CONNECTIONS true")

            def post_until_notified() -> bool:
                board.post("resize")
                return _is_notified(listening)

            eventually(post_until_notified)
        client.execute("DROP DATABASE refusing WITH (FORCE)")


def test_a_channel_that_the_server_refuses_holds_up_no_other_and_is_sent_again(
    board: JobBoard,
    listening: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    database, refused, real = _database_of(board), list[str](), PostgresqlDriver.notify_at_once
    refuses = threading.Event()
    refuses.set()

    def notify_at_once(driver: PostgresqlDriver, connection: psycopg.Connection[Any], channel: str) -> bool:
        if channel != database.channel and refuses.is_set():
            refused.append(channel)
            raise psycopg.errors.ProgramLimitExceeded("too many notifications in the NOTIFY queue")
        return real(driver, connection, channel)

    monkeypatch.setattr(PostgresqlDriver, "notify_at_once", notify_at_once)
    database._commit_notifier.request("jobboard_other", 0.0)
    eventually(lambda: refused)
    board.post("resize")
    eventually(lambda: _is_notified(listening))
    eventually(lambda: len(refused) > 2)
    assert len([text for text in caplog.messages if "can't notify other processes" in text]) == 1
    listening.execute(change_source.listen("jobboard_other").encode())
    refuses.clear()
    eventually(lambda: _is_notified(listening))


def test_a_process_that_could_start_no_thread_notifies_once_it_can(
    board: JobBoard, listening: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as busy:
        busy.setattr(threading.Thread, "start", refuse)
        board.post("resize")
    assert not _is_notified(listening)
    board.post("resize")
    eventually(lambda: _is_notified(listening))


def test_lines_that_every_job_causes_are_read_only_for_who_listens_to_them(
    postgresql: PostgresqlServer, board: JobBoard
) -> None:
    database = _database_of(board)
    journal = database.driver.dialect.table_names.table("journal")
    line = f"INSERT INTO {journal} (board, kind, name, at) VALUES ({database.board}, 'PAUSED', 'late', 0) RETURNING id"
    with closing(database.change_source()) as source, closing(postgresql.client()) as connection:

        def read(*wants_common: bool) -> tuple[list[str], int]:
            asked = iter(wants_common)
            lines = source.lines(number - 1, lambda: next(asked))
            return [row[1] for row in lines.rows], lines.last - number

        connection.autocommit = False
        [(number,)] = connection.execute(line)
        board.post("resize")
        [job] = board.claim_next("me")
        board.consume(job, "me")
        board.cancel(board.post("resize"))
        assert read(False, False) == (["CANCELLED"], 5)
        connection.commit()
        board.post("resize")
        time.sleep(READ_INTERVAL)
        # Somebody begins to listen to posts while the lines are read.
        assert read(False, True) == (["PAUSED", "POSTED"], 6)


def test_the_journal_is_not_read_while_who_was_notified_claims(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing but the notification says that something has changed.
    monkeypatch.setattr(change_source, "LOOK_INTERVAL", 60.0)
    monkeypatch.setattr(change_source, "READ_DELAY", 60.0)
    with closing(_database_of(board).change_source()) as source:
        assert source.wait_for_news(False)
        board.post("resize")
        eventually(lambda: source.wait_for_news(False))
        assert source.lines(0, lambda: False).last == 0
