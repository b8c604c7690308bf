"""What goes wrong with a file: each is our own error that says what to do, and nothing is changed."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.sql_seam import (
    backend_of,
    claimed,
    consumption,
    fence_of,
    fill,
    next_line,
    opened,
    other_process,
    post,
    posting,
    run_sql,
    say,
)

from jobboard import JobBoard
from jobboard.backends.rows import Consumption, Fence, Lost, Verdict
from jobboard.backends.sql import SqliteBackend
from jobboard.backends.sql.sqlite.errors import explain, explain_commit
from jobboard.errors import BoardUnavailable, ReplyLost
from jobboard.states import JobState

pytest_plugins = ("helpers.sqlite_fixtures",)

HOLD_THE_LOCK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
input()
connection.execute("COMMIT")
print("free", flush=True)
"""

AS_NOBODY = """
import os, sys
from pathlib import Path
from helpers.sql_seam import backend_of, post
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    backend = backend_of(Path(sys.argv[1]))
    backend.open(2.0)
    post(backend)
    print("posted", flush=True)
except Exception as error:
    print(type(error).__name__, error, flush=True)
"""


@pytest.fixture
def backend(path: Path) -> Iterator[SqliteBackend]:
    with opened(path, busy_timeout=0.1) as backend:
        yield backend


def refusal_to_open(path: Path) -> str:
    backend = backend_of(path)
    with pytest.raises(BoardUnavailable) as caught:
        backend.open(2.0)
    assert not backend.connected
    said = str(caught.value)
    assert str(path) in said or str(path.parent) in said
    assert "\n" not in said
    return said


def test_a_file_that_is_no_database(path: Path) -> None:
    path.write_text("these are the minutes of our last meeting\n" * 100)
    before = path.read_bytes()
    assert "is not an SQLite database; name another file" in refusal_to_open(path)
    assert path.read_bytes() == before


def test_a_directory_that_is_not_there(path: Path) -> None:
    assert "create it first" in refusal_to_open(path.parent / "missing" / "jobs.db")


def test_a_directory_in_the_place_of_the_file(path: Path) -> None:
    path.mkdir()
    assert "can't be opened" in refusal_to_open(path)


def test_a_symbolic_link_that_leads_to_itself(path: Path) -> None:
    path.symlink_to(path)
    assert "can't be opened" in refusal_to_open(path)


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every user of this machine can reach and nobody else can write to.

    Not below pytest's own, whose parents the tests of other processes share.
    """
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


def said_to_nobody(path: Path) -> str:
    with other_process(AS_NOBODY, path) as process:
        return next_line(process)


def test_a_directory_that_may_not_be_written_to(public: Path) -> None:
    directory = public / "closed"
    directory.mkdir()
    directory.chmod(0o555)
    said = said_to_nobody(directory / "jobs.db")
    assert said.startswith("BoardUnavailable")
    assert "may write" in said
    assert list(directory.iterdir()) == []


def test_a_file_that_may_not_be_written_to(public: Path) -> None:
    directory = public / "open"
    directory.mkdir()
    path = directory / "jobs.db"
    with opened(path) as backend:
        post(backend)
    path.chmod(0o444)
    directory.chmod(0o777)
    said = said_to_nobody(path)
    assert said.startswith("BoardUnavailable")
    assert "check the permissions" in said
    directory.chmod(0o755)
    assert run_sql(path, "SELECT count(*) FROM jobboard_jobs") == [(1,)]


def test_a_lock_that_is_held_for_longer_than_the_busy_timeout(path: Path, backend: SqliteBackend) -> None:
    post(backend)
    row = claimed(backend)
    with other_process(HOLD_THE_LOCK, path) as process:
        assert next_line(process) == "locked"
        began = time.monotonic()
        with pytest.raises(BoardUnavailable, match="locked by another process.*raise busy_timeout") as caught:
            backend.jobs.consume([consumption(row)])
        assert 0.1 <= time.monotonic() - began < 4.0
        assert not isinstance(caught.value, ReplyLost)
        # A reader isn't in the way, and sees that nothing was changed.
        (seen,) = backend.jobs.read([row.uuid])
        assert seen is not None
        assert seen.state is JobState.CLAIMED
        say(process)
        assert next_line(process) == "free"
    assert backend.jobs.consume([consumption(row)]) == [Verdict.DONE]


def test_a_lock_that_is_let_go_within_the_busy_timeout_is_waited_for(path: Path) -> None:
    with opened(path, busy_timeout=20.0) as backend, other_process(HOLD_THE_LOCK, path) as process:
        assert next_line(process) == "locked"
        say(process)
        post(backend)
        assert backend.jobs.count() == 1


def test_the_timeout_of_opening_is_not_that_of_the_work(path: Path) -> None:
    backend = backend_of(path, busy_timeout=7.0)
    backend.open(0.5)
    assert backend.database._reader.get().execute("PRAGMA busy_timeout").fetchone() == (7000,)
    backend.close()


def test_a_board_that_is_there_is_opened_without_a_lock(path: Path) -> None:
    with opened(path):
        pass
    with other_process(HOLD_THE_LOCK, path) as process:
        assert next_line(process) == "locked"
        with opened(path) as backend:
            assert backend.jobs.count() == 0


def test_opening_gives_up_after_its_timeout(path: Path) -> None:
    with opened(path):
        pass
    with other_process(HOLD_THE_LOCK, path) as process:
        assert next_line(process) == "locked"
        backend = backend_of(path, "new", busy_timeout=60.0)
        began = time.monotonic()
        with pytest.raises(BoardUnavailable, match="locked by another process"):
            backend.open(0.3)
        assert time.monotonic() - began < 30.0


def test_a_wait_keeps_its_time_while_the_file_is_locked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobboard.client.reader.LAST_ANSWER_TIMEOUT", 0.2)
    with JobBoard("board", backend_of(path, busy_timeout=60.0)) as board, other_process(HOLD_THE_LOCK, path) as process:
        job = board.post("resize", delay=0.1)
        assert next_line(process) == "locked"
        began = time.monotonic()
        with pytest.raises(BoardUnavailable, match="locked by another process"):
            list(board.wait(0.2))
        assert time.monotonic() - began < 30.0
        say(process)
        assert list(board.wait(20.0)) == [job]


def test_a_full_disk_changes_nothing_and_passes(path: Path, backend: SqliteBackend) -> None:
    row = post(backend)
    (pages,) = backend.database._writer.get().execute("PRAGMA page_count").fetchone()
    backend.database._writer.get().execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(BoardUnavailable, match="the disk is full; make room"):
        backend.jobs.post([posting(), posting(body=b"x" * 500_000)])
    assert backend.jobs.count() == 1
    assert run_sql(path, "PRAGMA integrity_check") == [("ok",)]
    backend.database._writer.get().execute("PRAGMA max_page_count=1000000")
    assert claimed(backend).uuid == row.uuid
    fill(backend, 2)


def test_a_file_that_is_damaged(path: Path) -> None:
    with opened(path) as backend:
        fill(backend, 2000)
    with path.open("r+b") as file:
        file.seek(2048)
        file.write(b"\xaa" * 2048 * 20)

    def work() -> None:
        with opened(path) as backend:
            backend.jobs.stats()
            claimed(backend)

    with pytest.raises(BoardUnavailable, match="is damaged; restore it from a backup"):
        work()


def test_a_table_that_is_gone(path: Path, backend: SqliteBackend) -> None:
    run_sql(path, "DROP TABLE jobboard_jobs")
    with pytest.raises(BoardUnavailable, match="restore it from a backup"):
        post(backend)


def test_closed_means_closed(path: Path) -> None:
    with opened(path) as backend:
        database = backend.database
    for call in (backend.jobs.count, lambda: backend.waiter(None), lambda: post(backend)):
        with pytest.raises(BoardUnavailable, match=r"call connect\(\)"):
            call()
    with pytest.raises(BoardUnavailable, match=r"call connect\(\)"), database.write():
        pass


def test_a_commit_whose_write_failed_is_of_unknown_outcome(path: Path) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
    assert isinstance(explain_commit(error, path), ReplyLost)
    assert not isinstance(explain(error, path), ReplyLost)
    error.sqlite_errorname = "SQLITE_BUSY"
    assert not isinstance(explain_commit(error, path), ReplyLost)


def test_numbers_that_no_column_holds_are_no_errors_of_sqlite(backend: SqliteBackend) -> None:
    row = post(backend)
    assert claimed(backend).uuid == row.uuid
    forged = Fence(row.uuid, "alice", 10**30)
    assert backend.jobs.consume([Consumption(forged, None, 1.0)]) == [Lost(JobState.CLAIMED, "alice")]
    assert backend.jobs.release(row.uuid, 10**30, "why") is Verdict.LOST
    assert backend.jobs.consume([Consumption(fence_of(backend.jobs.read([row.uuid])[0]), None, 1.0)]) == [Verdict.DONE]  # type: ignore[arg-type]
