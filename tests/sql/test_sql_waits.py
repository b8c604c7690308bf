"""Steps, signals and kept keys in an SQLite file: what tidying forgets, and what an audit finds and mends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from helpers.sql_seam import claim_next, claimed, consumption, fence_of, post, posting, run_sql

from jobboard.backends.base import RETRY_WINDOW
from jobboard.backends.edge_rows import StepRow
from jobboard.backends.rows import Abandonment, JobRow, PostOutcome, Ties, Trashing
from jobboard.backends.sql import SqliteBackend, maintenance
from jobboard.states import JobState

pytest_plugins = ("helpers.sqlite_fixtures",)


def with_steps(backend: SqliteBackend, count: int = 1, **options: Any) -> JobRow:
    """Post a job, and claim it; save steps, and send it a signal."""
    post(backend, **options)
    job = claimed(backend)
    for number in range(count):
        backend.steps.save(fence_of(job), StepRow(number, f"step {number}", b"result"))
    backend.steps.signal(job.uuid, "approved", b"yes")
    return job


def waiting(backend: SqliteBackend, **options: Any) -> JobRow:
    post(backend, **options)
    job = claimed(backend)
    backend.jobs.abandon([Abandonment(fence_of(job), counted=False, signal="approved")])
    return job


def counts(path: Path) -> list[int]:
    """Count the steps, the signals and the kept keys in the file."""
    return [run_sql(path, f"SELECT count(*) FROM jobboard_{table}")[0][0] for table in ("steps", "signals", "windows")]


def let_retentions_end(path: Path) -> None:
    run_sql(path, "UPDATE jobboard_jobs SET retain_until = retain_until - ?", 3600.0 + 2 * RETRY_WINDOW)


# -- tidying -----------------------------------------------------------------------------------------------------------


def test_what_belongs_to_a_job_goes_with_it(path: Path, backend: SqliteBackend) -> None:
    purged = with_steps(backend, key="a", key_for=600.0)
    backend.jobs.trash([Trashing(purged.uuid, fence_of(purged))])
    consumed, cancelled, kept = (with_steps(backend, key=key, key_for=600.0) for key in "bcd")
    backend.jobs.consume([consumption(consumed)])
    backend.jobs.release(cancelled.uuid, cancelled.token, "stuck")
    backend.jobs.cancel([cancelled.uuid])
    assert counts(path) == [4, 4, 4]
    assert backend.maintenance.audit(False) == []
    backend.jobs.purge([purged.uuid])
    assert counts(path) == [3, 3, 3]
    let_retentions_end(path)
    assert backend.maintenance.tidy(100) == 2
    assert counts(path) == [1, 1, 1]
    assert [found.name for found in backend.steps.load(kept.uuid, 0, 9)] == ["step 0"]
    assert backend.maintenance.audit(False) == []


def test_tidying_deletes_no_more_steps_at_once_than_one_job_has(
    path: Path, backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "MAX_PARTS", 5)
    for count in (6, 2, 3, 1):
        backend.jobs.consume([consumption(with_steps(backend, count))])
    let_retentions_end(path)
    assert [backend.maintenance.tidy(100) for _ in range(4)] == [1, 2, 1, 0]
    assert counts(path) == [0, 0, 0]


def test_a_key_whose_time_is_over_is_forgotten_with_its_job_there(path: Path, backend: SqliteBackend) -> None:
    job = with_steps(backend, key="k", key_for=600.0)
    other = post(backend, key="other", key_for=600.0)
    run_sql(path, "UPDATE jobboard_windows SET until = 1.0 WHERE uuid = ?", job.uuid)
    backend.maintenance.tidy(100)
    assert counts(path) == [1, 1, 1]
    assert backend.jobs.find(job.name, "k") is not None
    assert run_sql(path, "SELECT uuid FROM jobboard_windows") == [(other.uuid,)]


# -- audits ------------------------------------------------------------------------------------------------------------


def mended(backend: SqliteBackend) -> list[tuple[str | None, str]]:
    """Return what an audit finds, which a repair mends."""
    found = backend.maintenance.audit(False)
    assert [(each.uuid, each.problem) for each in backend.maintenance.audit(True)] == [
        (each.uuid, each.problem) for each in found
    ]
    assert backend.maintenance.audit(False) == []
    return [(each.uuid, each.problem) for each in found]


def test_a_key_that_is_kept_for_a_job_that_is_gone(path: Path, backend: SqliteBackend) -> None:
    gone = post(backend, key="k", key_for=600.0)
    kept = post(backend, key="other", key_for=600.0)
    run_sql(path, "DELETE FROM jobboard_journal WHERE job = ?", gone.sequence)
    run_sql(path, "DELETE FROM jobboard_jobs WHERE id = ?", gone.sequence)
    assert mended(backend) == [(gone.uuid, "it is gone, but the key 'k' of 'resize' is kept for it")]
    assert run_sql(path, "SELECT uuid FROM jobboard_windows") == [(kept.uuid,)]
    [posted] = backend.jobs.post([posting(key="k")])
    assert posted.outcome is PostOutcome.POSTED


def test_steps_and_signals_of_no_job(path: Path, backend: SqliteBackend) -> None:
    gone, kept = with_steps(backend, 3), with_steps(backend, 2)
    run_sql(path, "DELETE FROM jobboard_journal WHERE job = ?", gone.sequence)
    run_sql(path, "DELETE FROM jobboard_jobs WHERE id = ?", gone.sequence)
    assert mended(backend) == [(None, "3 steps belong to no job"), (None, "1 signals belong to no job")]
    assert counts(path) == [2, 1, 0]
    assert len(backend.steps.load(kept.uuid, 0, 9)) == 2


def test_a_job_that_waits_for_a_signal_that_is_there(path: Path, backend: SqliteBackend) -> None:
    stuck, other = waiting(backend), waiting(backend)
    number = run_sql(path, "SELECT board FROM jobboard_jobs LIMIT 1")[0][0]
    run_sql(path, "INSERT INTO jobboard_signals VALUES (?, ?, 'approved', 1.0, ?)", number, stuck.uuid, b"yes")
    assert mended(backend) == [(stuck.uuid, "it waits for a signal that was sent")]
    assert [job.uuid for job in claim_next(backend, limit=9)] == [stuck.uuid]
    assert backend.jobs.read([other.uuid])[0].state is JobState.BLOCKED  # type: ignore[union-attr]


@pytest.mark.parametrize("lost", ["NULL", "9e9"])
def test_a_moment_that_no_index_knows(path: Path, backend: SqliteBackend, lost: str) -> None:
    waiting(backend)
    job = post(backend, ties=Ties(start_by=backend.now() + 600.0))
    post(backend, ties=Ties(start_by=backend.now() + 700.0))
    run_sql(path, f"UPDATE jobboard_jobs SET due_at = {lost} WHERE id = ?", job.sequence)
    assert mended(backend) == [(job.uuid, "its moment comes before the one at which it is looked at")]
    assert backend.jobs.read([job.uuid]) == [job]


def test_a_job_that_is_blocked_by_nothing(path: Path, backend: SqliteBackend) -> None:
    job = post(backend)
    run_sql(path, "UPDATE jobboard_jobs SET state = -1")
    assert mended(backend) == [(job.uuid, "it is blocked, but waits for nothing")]
    assert [found.uuid for found in claim_next(backend)] == [job.uuid]
