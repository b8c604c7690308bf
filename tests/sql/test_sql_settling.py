"""Due jobs are expired and promoted up to a bound; the transactions after it go on with the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.sql_seam import claim_next, fill, opened, post, run_sql

from jobboard.backends.sql import SqliteBackend, expiry, job_statements

OVERDUE = 2 * job_statements.MAX_PER_ROUND + 100


@pytest.mark.parametrize("state", ["state = 0", "state = 2, owner = 'bob', claim_id = 'his'"])
def test_one_transaction_moves_no_more_than_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(expiry, "MAX_ROUNDS", 1)
    with opened(tmp_path / "jobs.db") as backend:
        fill(backend, OVERDUE)
        run_sql(tmp_path / "jobs.db", f"UPDATE jobboard_jobs SET due_at = 1, {state}")
        for _ in range(3):
            assert len(claim_next(backend)) == 1
        assert (backend.jobs.stats().unclaimed, _due(backend)) == (OVERDUE - 3, 0)


def test_rows_that_are_due_by_mistake_hold_up_nobody(tmp_path: Path) -> None:
    with opened(tmp_path / "jobs.db") as backend:
        wrong = [post(backend) for _ in range(3)]
        for row, state in zip(wrong, (1, 3, 9), strict=True):
            run_sql(
                tmp_path / "jobs.db",
                f"UPDATE jobboard_jobs SET due_at = 1, state = {state} WHERE id = {row.sequence}",
            )
        assert [row.uuid for row in claim_next(backend, limit=9)] == [wrong[0].uuid]
        assert _due(backend) == 0


def _due(backend: SqliteBackend) -> int:
    with backend.database.read() as transaction:
        return len(transaction.rows(job_statements.OVERDUE))
