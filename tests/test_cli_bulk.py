"""The commands that change many jobs, some of which change while an operator is asked."""

from __future__ import annotations

import pytest
from helpers.command_line import Run, as_json

from jobboard import JobBoard, JobState, Posting
from jobboard.cli import selecting
from jobboard.operate.bulk import ACTIONS

pytest_plugins = ("helpers.command_fixtures",)


@pytest.mark.parametrize("verb", ["cancel", "trash", "restore", "purge"])
def test_of_many_jobs_some_that_are_gone_meanwhile_are_no_failure(
    jobboard: Run, board: JobBoard, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    jobs, asked = board.post_many([Posting("a", lane="t:7") for _ in range(6)]), list[str]()

    def answer(question: str) -> None:
        asked.append(question)
        for job in jobs[:3]:
            board.purge(job.uuid) if is_trashed else board.cancel(job)

    is_trashed = verb in ("restore", "purge")
    if is_trashed:
        for job in jobs:
            board.trash(job)
    monkeypatch.setattr(selecting, "confirm", answer)
    done = as_json(jobboard(verb, "--job-name", "a", "--lane", "t:7", "--json"))
    assert done == {ACTIONS[verb].done: 3, "refused": [], "gone": 3}
    assert asked == [f"{verb} 6 jobs named 'a' (--job-name a, --lane t:7)?"]
    left = [job.state.value for job in board.iterjobs(states=list(JobState))]
    assert left == {"cancel": [], "trash": ["TRASHED"] * 3, "restore": ["UNCLAIMED"] * 3, "purge": []}[verb]


@pytest.mark.parametrize("option", ["--key", "--key-prefix", "--key-contains", "--owner", "--reason", "--reason-kind"])
@pytest.mark.parametrize("verb", ["cancel", "trash", "purge"])
def test_an_empty_filter_selects_nothing(jobboard: Run, board: JobBoard, verb: str, option: str) -> None:
    """As in ``--key-prefix "$PREFIX"``, of a variable that is not set."""
    jobs = board.post_many([Posting("a", key=key) for key in ("1", "2", None)])
    if verb == "purge":
        for job in jobs:
            board.trash(job)
    assert "empty" in jobboard(verb, option, "", "--yes", status=2)
    assert len(list(board.iterjobs(states=list(JobState)))) == 3
