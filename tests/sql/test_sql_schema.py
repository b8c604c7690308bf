"""The schema's version, and who else uses the file."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest
from helpers.sql_seam import backend_of, next_line, opened, other_process, post, run_sql, say

from jobboard.backends.book_rows import BookSave, SaveOutcome
from jobboard.backends.rows import Pause, Verdict
from jobboard.backends.schedule_rows import ScheduleRow, ScheduleStep
from jobboard.backends.sql.schema import VERSION
from jobboard.errors import BoardUnavailable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


def version_of(path: Path) -> str:
    [(version,)] = run_sql(path, "SELECT value FROM jobboard_meta WHERE name = 'version'")
    return str(version)


@pytest.mark.parametrize("version", [str(VERSION + 1), "999", "alien"])
def test_a_newer_schema_is_refused_and_left_as_it_is(path: Path, version: str) -> None:
    with opened(path) as backend:
        post(backend)
    run_sql(path, "UPDATE jobboard_meta SET value = ? WHERE name = 'version'", version)
    backend = backend_of(path)
    with pytest.raises(BoardUnavailable, match="made by a newer jobboard.*upgrade jobboard"):
        backend.open(5.0)
    assert not backend.connected
    assert version_of(path) == version
    assert run_sql(path, "SELECT count(*) FROM jobboard_jobs") == [(1,)]


def test_a_newer_file_without_our_tables_is_not_given_them(path: Path) -> None:
    run_sql(path, "CREATE TABLE jobboard_meta (name TEXT PRIMARY KEY, value TEXT)")
    run_sql(path, "INSERT INTO jobboard_meta VALUES ('version', '6')")
    with pytest.raises(BoardUnavailable):
        backend_of(path).open(5.0)
    assert run_sql(path, "SELECT name FROM sqlite_master WHERE type = 'table'") == [("jobboard_meta",)]


def test_a_file_is_opened_again_with_what_is_in_it(path: Path) -> None:
    with opened(path) as backend:
        row = post(backend)
    with opened(path) as backend:
        assert backend.jobs.read([row.uuid]) == [row]


def test_a_file_of_the_first_version_is_upgraded_with_what_is_in_it(path: Path) -> None:
    with opened(path) as backend:
        row = post(backend, key="k")
    run_sql(path, "DROP TABLE jobboard_schedules")
    run_sql(path, "DROP TABLE jobboard_book_entries")
    run_sql(path, "UPDATE jobboard_meta SET value = '1' WHERE name = 'version'")
    with pytest.raises(
        BoardUnavailable, match=f"schema 1, this jobboard needs schema {VERSION}; .* `jobboard migrate`"
    ):
        backend_of(path).open(5.0)
    backend_of(path).migrate(5.0)
    with opened(path) as backend:
        assert backend.jobs.read([row.uuid]) == [row]
        step = ScheduleStep("nightly", None, ScheduleRow("nightly", "a", 0.0, b"body"))
        assert backend.schedules.step([step]) == [Verdict.DONE]
        assert backend.books.save(BookSave(row.uuid, "1", None, b"", {"a": b"1"})) is SaveOutcome.SAVED
    assert version_of(path) == str(VERSION)


def test_another_application_may_have_its_tables_in_the_file(path: Path) -> None:
    run_sql(path, "CREATE TABLE jobs (id INTEGER)")
    run_sql(path, "INSERT INTO jobs VALUES (7)")
    with opened(path) as backend:
        post(backend)
    assert run_sql(path, "SELECT id FROM jobs") == [(7,)]


def test_two_boards_of_one_file_share_nothing(path: Path) -> None:
    with opened(path, "one") as one, opened(path, "two") as two:
        row = post(one, key="k")
        assert post(two, key="k").uuid != row.uuid
        one.maintenance.pause(None)
        assert (two.jobs.read([row.uuid]), two.maintenance.paused(), two.jobs.count()) == ([None], frozenset(), 1)


@pytest.mark.parametrize("change", ["state = 5", "state = -2", "state = 'gone'", "rank = 0", "rank = 'best'"])
def test_the_file_itself_refuses_a_row_that_nobody_could_sort(path: Path, change: str) -> None:
    with opened(path) as backend:
        post(backend)
        with (
            contextlib.closing(sqlite3.connect(path)) as connection,
            pytest.raises(sqlite3.IntegrityError, match="CHECK"),
        ):
            connection.execute(f"UPDATE jobboard_jobs SET {change}")


OPEN = """
import sys
from pathlib import Path
from helpers.sql_seam import backend_of, post
print("ready", flush=True)
input()
backend = backend_of(Path(sys.argv[1]))
backend.open(20.0)
post(backend)
backend.close()
print("done", flush=True)
"""


def test_processes_that_make_the_file_at_the_same_time_all_succeed(path: Path) -> None:
    with contextlib.ExitStack() as processes:
        crowd = [processes.enter_context(other_process(OPEN, path)) for _ in range(6)]
        assert [next_line(process) for process in crowd] == ["ready"] * 6
        for process in crowd:
            say(process)
        assert [next_line(process) for process in crowd] == ["done"] * 6
    with opened(path) as backend:
        assert backend.jobs.count() == 6
        assert backend.maintenance.audit(False) == []


def test_the_line_that_tells_of_a_pause_stays_as_long_as_the_pause(path: Path) -> None:
    with opened(path) as backend:
        maintenance = backend.maintenance
        maintenance.pause("resize", "ada", "disk full")
        maintenance.pause(None, "bob", None)
        told = maintenance.pauses()
        run_sql(path, "UPDATE jobboard_journal SET at = at - 1e6")
        maintenance.tidy(100)
        assert [(pause.name, pause.by, pause.reason) for pause in maintenance.pauses()] == [
            (pause.name, pause.by, pause.reason) for pause in told
        ]
        maintenance.resume("resize")
        run_sql(path, "UPDATE jobboard_journal SET at = at - 1e6")
        maintenance.tidy(100)
        assert run_sql(path, "SELECT kind, who FROM jobboard_journal") == [("PAUSED", "bob")]
        maintenance.resume(None)
        maintenance.tidy(100)
        run_sql(path, "UPDATE jobboard_journal SET at = at - 1e6")
        maintenance.tidy(100)
        assert run_sql(path, "SELECT kind FROM jobboard_journal") == []


def test_a_pause_whose_line_an_older_jobboard_has_forgotten_is_told_without_by(path: Path) -> None:
    with opened(path) as backend:
        backend.maintenance.pause("resize", "ada", "disk full")
        run_sql(path, "DELETE FROM jobboard_journal")
        assert (backend.maintenance.pauses(), backend.maintenance.paused()) == ([Pause("resize")], {"resize"})
