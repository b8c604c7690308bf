"""A column of an SQLite file that holds what it can't: the job is set aside or read as it can be, the others go on."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.sql_seam import run_sql

import jobboard
from jobboard import JobBoardError, JobState, Posting

COLUMNS = [
    "name", "key", "created_on", "max_attempts", "attempts", "owner", "token", "claim_id", "due_at", "run_at",
    "last_modified", "last_error", "reason", "cancel_asked", "retain_until", "checkpoint", "progress", "result", "body",
]  # fmt: skip


@pytest.mark.parametrize("value", ["'x'", "x'ff'", "1e300", "9e999", "-1", "''"])
def test_a_row_with_any_column_damaged_harms_nobody(tmp_path: Path, value: str) -> None:
    path = tmp_path / "jobs.db"
    with jobboard.backend("b", f"sqlite:///{path}?synchronous=off") as board:
        good = {board.post("resize").uuid}
        bad = {column: board.post_many([Posting("resize"), Posting("rotate")]) for column in COLUMNS}
        for column, (job, claimed) in bad.items():
            board.claim(claimed, "alice", 600)
            for one in (job, claimed):
                run_sql(path, f"UPDATE jobboard_jobs SET {column} = {value} WHERE uuid = '{one.uuid}'")
        good.add(board.post("resize").uuid)
        everything = list(board.iterjobs(states=list(JobState)))
        assert good <= {job.uuid for job in everything}
        assert all(job.record is not None and job.history for job in everything if job.uuid in good)
        assert board.stats().names
        assert good <= {job.uuid for job in board.wait(1)}
        claimed = {job.uuid: job for job in board.claim_next("bob", limit=100)}
        assert good <= set(claimed)
        for uuid in good:
            board.consume(claimed[uuid], "bob")
        for jobs in bad.values():
            for job in jobs:
                for call in (board.get, board.find_owner, board.cancel, board.restore, board.purge):
                    try:
                        call(job.uuid)
                    except JobBoardError:
                        continue
        board.audit(repair=True)
        assert all(job.record is not None for job in board.trashed())
