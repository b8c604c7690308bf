"""Jobs of one name are told apart by their keys, wherever a command names them to people."""

from __future__ import annotations

import pytest
from helpers.command_line import Run, as_json

from jobboard import Entity, Job, JobBoard, Rate
from jobboard.cli.app import run

pytest_plugins = ("helpers.command_fixtures",)

DAYS = ("2027-01-01", "2027-01-02", "2027-01-03")


def fetches(board: JobBoard, **options: object) -> list[Job]:
    return [board.post("fetch", key=day, **options) for day in DAYS]  # type: ignore[arg-type]


def days_in(told: str, before: str = "fetch:") -> list[bool]:
    return [f"{before}{day}" in told for day in DAYS]


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what a command wrote that does not end with status 0."""
    assert run(list(arguments)) != 0
    out, err = capsys.readouterr()
    return out + err


def test_of_the_trash(jobboard: Run, board: JobBoard, capsys: pytest.CaptureFixture[str]) -> None:
    parents = fetches(board)
    child = board.post("sum", key="week", after=parents)
    last = board.post("report", key="year", after=[child])
    for number, parent in enumerate(parents):
        board.trash(parent, reason=f"{'xyz'[number]}: bad")
    listed = [line.split("\t")[1:3] for line in jobboard("trashed").splitlines()]
    assert listed == [["name", "key"], *(["fetch", day] for day in DAYS)]
    assert all(days_in(jobboard("why", child.uuid)))
    assert all(days_in(jobboard("why", last.uuid)))
    assert "sum:week" in jobboard("why", last.uuid)
    assert all(days_in(said(capsys, "status")))
    assert f"fetch\t{DAYS[0]}\t" in jobboard("restore", parents[0].uuid, "--with-children", "--dry-run")
    told = as_json(said(capsys, "wait", child.uuid, "--timeout", "0s", "--json"))
    assert [(end["name"], end["key"]) for end in told] == [("sum", "week")]
    why = as_json(jobboard("why", child.uuid, "--json"))
    assert (why["name"], why["key"]) == ("sum", "week")
    fetches(board)
    refused = said(capsys, "restore", "--job-name", "fetch", "--yes")
    assert refused.count("which is live, has its key") == 3
    assert all(days_in(refused))


@pytest.mark.parametrize("verb", ["cancel", "trash", "restore", "purge", "release", "run-now", "reprioritize"])
def test_a_dry_run_lists_what_filters_select_and_changes_nothing(verb: str, jobboard: Run, board: JobBoard) -> None:
    jobs = fetches(board, delay=600 if verb == "run-now" else 0)
    others = [board.post("sum", delay=600 if verb == "run-now" else 0)]
    for job in (*jobs, *others):
        if verb in ("restore", "purge"):
            board.trash(job)
        elif verb == "release":
            board.claim(job, "w", 600)
    state, more = jobs[0].state, ["--priority", "high"] if verb == "reprioritize" else []
    rows = as_json(jobboard(verb, "--key-prefix", "2027-01-0", *more, "--dry-run", "--json"))
    assert rows == [
        {"uuid": job.uuid, "name": "fetch", "key": day, "state": state.value}
        for job, day in zip(jobs, DAYS, strict=True)
    ]
    told = jobboard(verb, "--all", *more, "--dry-run").splitlines()
    assert (len(told), told[-1].startswith("4 jobs (3 fetch, 1 sum) would be ")) == (6, True)
    assert jobboard(verb, jobs[1].uuid, *more, "--dry-run").splitlines()[1].split("\t")[:3] == [
        jobs[1].uuid, "fetch", DAYS[1],
    ]  # fmt: skip
    assert jobboard(verb, "--job-name", "else", *more, "--dry-run").startswith("0 jobs would be ")
    assert {job.state for job in (*jobs, *others)} == {state}
    assert {job.priority.name for job in (*jobs, *others)} == {"NORMAL"}


def test_a_dry_run_leaves_out_a_job_that_the_command_is_not_for(jobboard: Run, board: JobBoard) -> None:
    job = board.post("fetch")
    assert jobboard("restore", job.uuid, "--dry-run") == "0 jobs would be restored; nothing was changed\n"


def test_of_lanes(jobboard: Run, board: JobBoard) -> None:
    board.register_entity(Entity("conductor", "w", {"names": ["fetch"]}, 600))
    board.limits.set(lane="api", running=3)
    running = fetches(board, lane="api")
    waiting = board.post("fetch", lane="api")
    assert all(days_in(jobboard("why", waiting.uuid)))
    for job in running[:2]:
        board.claim(job, "w", 600)
    assert all(days_in(jobboard("why", waiting.uuid)))
    board.limits.set(lane="api", rate=Rate(1, 60))
    assert days_in(jobboard("why", waiting.uuid)) == [False, False, True]


def test_of_a_strict_lane_that_is_held(board: JobBoard, capsys: pytest.CaptureFixture[str]) -> None:
    board.register_entity(Entity("conductor", "w", {"names": ["fetch"]}, 600))
    board.limits.set(lane="api", running=1, order="strict")
    first, *_ = fetches(board, lane="api")
    for _ in range(3):
        board.run_now(first)
        board.claim_next("w1")
        board.abandon(first, "w1", delay=3600, error="OSError: dead")
    assert days_in(said(capsys, "status")) == [True, False, False]
