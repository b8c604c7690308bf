"""Since when jobs are claimed, also once their claims were renewed."""

from __future__ import annotations

from datetime import datetime

import pytest
from helpers.command_line import Run, as_json
from helpers.counted_requests import count_requests

from jobboard import JobBoard, Posting
from jobboard.operate.views import owners
from jobboard.testing import clock_of, memory_board

pytest_plugins = ("helpers.command_fixtures",)


def test_owners_say_since_when_they_hold_their_first_job(monkeypatch: pytest.MonkeyPatch) -> None:
    with memory_board() as board:
        jobs = board.post_many([Posting("a")] * 6)
        moments = []
        for _ in range(3):
            clock_of(board).move(100)
            moments.append(clock_of(board).now())
            for who in ("alice", "bob")[: 2 - len(moments) // 2]:
                for job in board.claim_next(who, expiry=1e5):
                    clock_of(board).move(10)
                    board.extend(job, who, 1e5)
        sent = count_requests(board, monkeypatch)
        seen = {
            row["owner"]: (row["jobs"], round((row["oldest"] - moments[0]).total_seconds())) for row in owners(board)
        }
        assert seen == {"alice": (3, 0), "bob": (1, 10)}
        assert sent.count("history") == 2
        assert len(jobs) == 6


def test_a_list_of_claimed_jobs_says_since_when(jobboard: Run, board: JobBoard) -> None:
    jobs = board.post_many([Posting("a")] * 3)
    for job in jobs[:2]:
        board.claim(job, "alice")
        board.extend(job, "alice", 60)
    listed = as_json(jobboard("ls", "--state", "claimed", "--json"))
    claims = {job.uuid: job.history[1].at for job in jobs[:2]}
    assert {row["uuid"]: datetime.fromisoformat(row["claimed_on"]) for row in listed} == claims
    assert "claimed_on" in jobboard("ls", "--state", "claimed").splitlines()[0]
    assert "claimed_on" not in jobboard("ls").splitlines()[0]
