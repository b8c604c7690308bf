"""Contradictions in the file: each is found, named once, and mended."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.sql_seam import claim_next, claimed, consumption, opened, post, run_sql

from jobboard.backends.book_rows import BookSave
from jobboard.backends.rows import JobRow
from jobboard.backends.sql import SqliteBackend
from jobboard.states import JobState

pytest_plugins = ("helpers.sqlite_fixtures",)


def make(backend: SqliteBackend, state: JobState) -> JobRow:
    row = post(backend, delay=60.0 if state is JobState.DELAYED else None)
    if state in (JobState.CLAIMED, JobState.COMPLETE):
        row = claimed(backend)
    if state is JobState.COMPLETE:
        backend.jobs.consume([consumption(row)])
    return row


#: What is done to a job of a state -> what is said of it, and its state afterwards.
DAMAGE = [
    (JobState.CLAIMED, "owner = NULL", "claimed, but by nobody", JobState.UNCLAIMED),
    (JobState.CLAIMED, "claim_id = NULL", "claimed, but by nobody", JobState.UNCLAIMED),
    (JobState.UNCLAIMED, "owner = 'ghost'", "not claimed, but has an owner", JobState.UNCLAIMED),
    (JobState.DELAYED, "claim_id = 'ghost'", "not claimed, but has a claim", JobState.DELAYED),
    (JobState.COMPLETE, "claim_id = 'ghost'", "not claimed, but has a claim", JobState.COMPLETE),
    (JobState.DELAYED, "due_at = NULL", "never due", JobState.UNCLAIMED),
    (JobState.UNCLAIMED, "due_at = 9e9", "neither delayed nor claimed, but due", JobState.UNCLAIMED),
    (JobState.COMPLETE, "due_at = 9e9", "neither delayed nor claimed, but due", JobState.COMPLETE),
    (JobState.CLAIMED, "retain_until = 9e9", "remembered as gone", JobState.CLAIMED),
    (JobState.UNCLAIMED, "retain_until = 9e9", "remembered as gone", JobState.UNCLAIMED),
    (JobState.UNCLAIMED, "state = 9", "its state is none", JobState.TRASHED),
    (JobState.UNCLAIMED, "state = 'lost'", "its state is none", JobState.TRASHED),
    (JobState.UNCLAIMED, "rank = 7", "its priority is none", JobState.UNCLAIMED),
    (JobState.CLAIMED, "rank = -70", "its priority is none", JobState.CLAIMED),
]


@pytest.mark.parametrize(("state", "damage", "problem", "afterwards"), DAMAGE)
def test_a_contradiction_is_found_and_mended(
    path: Path, backend: SqliteBackend, state: JobState, damage: str, problem: str, afterwards: JobState
) -> None:
    good = post(backend, delay=300.0)
    row = make(backend, state)
    assert backend.maintenance.audit(False) == []
    run_sql(path, f"UPDATE jobboard_jobs SET {damage} WHERE uuid = ?", row.uuid)
    (found,) = backend.maintenance.audit(False)
    assert (found.uuid, found.repaired) == (row.uuid, False)
    assert problem in found.problem
    assert backend.maintenance.audit(False) == [found]
    assert [finding.repaired for finding in backend.maintenance.audit(True)] == [True]
    assert backend.maintenance.audit(False) == []
    seen, other = backend.jobs.read([row.uuid, good.uuid])
    assert seen is not None
    assert seen.state is afterwards
    assert (seen.owner is not None) == (afterwards in (JobState.CLAIMED, JobState.COMPLETE))
    assert other == good


def test_a_complete_job_without_an_end_of_its_retention_is_let_go(path: Path, backend: SqliteBackend) -> None:
    row = make(backend, JobState.COMPLETE)
    run_sql(path, "UPDATE jobboard_jobs SET retain_until = NULL")
    (found,) = backend.maintenance.audit(True)
    assert "remembered for ever" in found.problem
    assert backend.maintenance.audit(False) == []
    assert backend.jobs.read([row.uuid]) == [None]


def test_lines_of_no_job_are_found_and_dropped(path: Path, backend: SqliteBackend) -> None:
    row, gone = post(backend), post(backend)
    run_sql(path, "DELETE FROM jobboard_jobs WHERE uuid = ?", gone.uuid)
    (found,) = backend.maintenance.audit(True)
    assert (found.uuid, found.problem) == (None, "1 lines of history belong to no job")
    assert backend.maintenance.audit(False) == []
    assert len(backend.jobs.history(row.uuid)) == 1


def test_a_row_whose_state_is_none_holds_nobody_up_and_keeps_its_key_free(path: Path, backend: SqliteBackend) -> None:
    lost = post(backend, key="k")
    run_sql(path, "UPDATE jobboard_jobs SET state = 9, due_at = 1.0")
    other = post(backend, key="k")
    assert [row.uuid for row in claim_next(backend, limit=5)] == [other.uuid]
    (seen,) = backend.jobs.read([lost.uuid])
    assert seen is not None
    assert seen.state is JobState.TRASHED
    assert backend.maintenance.audit(False) == []


def test_another_boards_rows_are_not_looked_at(path: Path, backend: SqliteBackend) -> None:
    with opened(path, "other") as other:
        post(other)
        run_sql(path, "UPDATE jobboard_jobs SET owner = 'ghost'")
        assert backend.maintenance.audit(True) == []
        assert len(other.maintenance.audit(False)) == 1


def test_entries_of_no_book_are_found_and_dropped(path: Path, backend: SqliteBackend) -> None:
    for uuid in ("kept", "gone"):
        backend.books.save(BookSave(uuid, "1", None, b"", {"a": b"1", "b": b"2"}))
    run_sql(path, "DELETE FROM jobboard_books WHERE uuid = 'gone'")
    (found,) = backend.maintenance.audit(True)
    assert (found.uuid, found.problem) == (None, "2 entries belong to no logbook")
    assert backend.maintenance.audit(False) == []
    part = backend.books.load("kept", None, 10)
    assert part is not None
    assert len(part.entries) == 2
