"""The commands that change many jobs, some of which change while an operator is asked."""

from __future__ import annotations

import pytest
from helpers.command_line import Run, as_json

from jobboard import JobBoard, JobState, Posting
from jobboard.cli import selecting
from jobboard.cli.app import run
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


@pytest.mark.parametrize("verb", ["release", "trash", "cancel", "restore"])
def test_one_job_and_all_jobs_is_refused(jobboard: Run, board: JobBoard, verb: str) -> None:
    job, _ = board.post_many([Posting("a"), Posting("a")])
    before = job.last_modified
    assert "name one JOB, or filters" in jobboard(verb, job.uuid, "--all", "--yes", status=2)
    assert (job.state, job.last_modified) == (JobState.UNCLAIMED, before)


@pytest.mark.parametrize("verb", ["restore", "purge", "run-now"])
def test_one_job_that_is_named_and_not_what_the_verb_is_for_is_refused(
    board: JobBoard, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    job = board.post("count", key="a")
    board.consume(job, "ada", token=board.claim(job, "ada"))
    assert run([verb, job.uuid, "--json", *["--yes"] * (verb == "purge")]) == 1
    out, err = capsys.readouterr()
    [line] = as_json(out).pop("refused")
    assert (line in err, "gone" in as_json(out)) == (True, False)
    assert run([verb, job.uuid, *["--yes"] * (verb == "purge")]) == 1
    assert "by then" not in capsys.readouterr().out


def test_one_of_many_that_is_gone_is_told_as_one(
    jobboard: Run, board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = board.post_many([Posting("a") for _ in range(3)])
    for job in jobs:
        board.trash(job)
    monkeypatch.setattr(selecting, "confirm", lambda _: board.purge(jobs[0]))
    assert jobboard("restore", "--job-name", "a") == (
        "2 of 3 jobs named 'a' restored; 1 was not in the trash any more by then\n"
    )


def test_a_release_of_a_job_that_was_to_stop_cancels_it(jobboard: Run, board: JobBoard) -> None:
    jobs = [board.post("a") for _ in range(2)]
    for job in jobs:
        board.claim(job, "alice")
        board.cancel(job)
    assert "is cancelled" in jobboard("release", jobs[0].uuid)
    assert as_json(jobboard("release", jobs[1].uuid, "--json")) == {"uuid": jobs[1].uuid, "gone": True}
