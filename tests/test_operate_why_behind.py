"""Whether jobs that come before another one do so by their priority or by their age: starvation, or a backlog."""

from __future__ import annotations

import pytest

from jobboard import Entity, Posting
from jobboard.operate.why import why
from jobboard.testing import memory_board


def test_whether_age_or_priority_lets_jobs_come_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with memory_board() as board:
        board.register_entity(Entity("conductor", "worker", {"names": ["a"], "running": 0, "concurrency": 2}))
        jobs = board.post_many([Posting("a", priority=priority) for priority in ("low", "normal", "normal", "high")])
        assert [why(board, job)[0].text for job in jobs[:3]] == [
            "3 jobs come before it, by a higher priority.",
            "1 job comes before it, by a higher priority.",
            "2 jobs come before it, 1 by a higher priority and the others by age.",
        ]
        monkeypatch.setattr("jobboard.operate.why.MAX_AHEAD", 2)
        assert why(board, jobs[0])[0].text == "2 or more jobs come before it, the first 2 by a higher priority."
