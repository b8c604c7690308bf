"""How a graph of jobs stands: what failed, what waits for it, whether it is over, and what it costs to ask."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.graphs import count_requests, end, post_graph

from jobboard import Conductor, Graph, Handlers, Job, JobBoard, JobState, Posting, RunningJob, Then, aio, backend
from jobboard.board import client_of
from jobboard.testing.deadline import eventually
from jobboard.types import ExecutorName


@pytest.fixture(params=["memory", "sqlite"])
def board(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JobBoard]:
    conf = "memory" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    with backend(request.node.name, conf) as board:
        yield board


def held(board: JobBoard, name: str) -> list[str]:
    job = next(job for job in board.trashed() if job.name == name)
    return sorted(node.name for node in board.graph(job).held)


def test_what_waits_for_a_trashed_job_is_held_over_all_levels_and_only_that(board: JobBoard) -> None:
    bad, good = Posting("bad"), Posting("good")
    waits = Posting("waits", after=[bad, good])
    runs = Posting("runs", after=[bad, good], if_failed="run")
    # It looks at its parent only, which has not ended.
    below = Posting("below", after=[waits], if_failed="run")
    deepest = Posting("deepest", after=[below, runs], if_failed="cancel")
    jobs = {job.name: job for job in board.post_many([bad, good, waits, runs, below, deepest])}
    board.trash(jobs["bad"], reason="ValueError: no")
    assert held(board, "bad") == ["below", "deepest", "waits"]
    graph = board.graph(jobs["deepest"])
    assert not graph.is_over, "good has not ended, and runs will run"
    assert graph.ended_on is None
    end(board, jobs["good"])
    end(board, jobs["runs"])
    graph = board.graph(jobs["runs"])
    assert graph.is_over
    assert graph.ended_on == board.get(jobs["runs"].uuid).record.last_modified
    assert [(node.name, node.reason) for node in graph.failed] == [("bad", "ValueError: no")]
    assert {node.name for node in graph.children(jobs["bad"].uuid)} == {"waits", "runs"}
    assert {node.name for node in graph.parents(jobs["deepest"].uuid)} == {"below", "runs"}


def test_a_job_in_the_trash_says_what_it_holds_and_not_what_another_one_does(board: JobBoard) -> None:
    bad, worse, good = Posting("bad"), Posting("worse"), Posting("good")
    both = Posting("both", after=[bad, worse, good])
    runs = Posting("runs", after=[bad, both], if_failed="run")
    only = Posting("only", after=[worse])
    report = Posting("report", after=[runs, only, good], if_failed="cancel")
    jobs = {job.name: job for job in board.post_many([bad, worse, good, both, runs, only, report])}
    for name in ("bad", "worse"):
        board.trash(jobs[name], reason=f"{name} it is")
    end(board, jobs["good"])
    graph = board.graph(jobs["good"])
    held = {name: {node.name for node in graph.held_by(job.uuid)} for name, job in jobs.items()}
    assert held == {
        "bad": {"both", "runs", "report"}, "worse": {"both", "only", "runs", "report"}, "good": set(),
        "both": {"runs", "report"}, "runs": {"report"}, "only": {"report"}, "report": set(),
    }  # fmt: skip
    assert {node.name for node in graph.held} == held["bad"] | held["worse"]


def test_a_run_as_text_has_a_line_for_each_job_in_order_and_nothing_that_jobs_carry(board: JobBoard) -> None:
    bad, good = Posting("extract", {"secret": 1}, key="bad"), Posting("extract", {"secret": 2}, key="good")
    later = Posting("later", after=[good], delay=3600)
    report = Posting("report", after=[bad, later])
    jobs = board.post_many([report, bad, good, later])
    short = [job.uuid[-8:] for job in jobs]
    end(board, jobs[2])
    board.claim(jobs[1], "worker")
    board.trash(jobs[1], "worker", reason="KeyError: 'amount'\nline 7")
    lines = [re.sub(r"\d+m?s after", "soon after", line) for line in str(board.graph(jobs[1])).splitlines()]
    assert sorted(lines[:2]) == [
        f"extract:bad {short[1]}  trashed soon after it could be claimed: KeyError: 'amount'\\nline 7 (1 waits for it)",
        f"extract:good {short[2]}  complete soon after it could be claimed",
    ]
    assert lines[2:5] == [
        f"later {short[3]}  delayed",
        f"report {short[0]}  blocked, waits for parents",
        "4 jobs: 1 trashed, 1 blocked, 1 delayed, 1 complete",
    ]
    assert lines[5].startswith("not over; posted ")
    assert lines[5].endswith(" UTC; 1 job waits for what is in the trash")
    assert len(lines) == 6
    assert "secret" not in str(board.graph(jobs[1]))


def test_a_run_as_text_says_what_was_measured_and_what_failed_before(board: JobBoard) -> None:
    jobs = post_graph(board, {"once": [], "thrice": [], "restored": [], "again": []})
    for name, attempts in {"thrice": 2, "restored": 1}.items():
        for number in range(attempts):
            board.claim(jobs[name], "worker")
            board.abandon(jobs[name], "worker", reason="no", error=f"Traceback\n  in line 7\nOSError: disk {number}\n")
    board.claim(jobs["again"], "worker")
    board.abandon(jobs["again"], "worker", reason="runs again", counted=False)
    board.claim(jobs["thrice"], "worker")
    assert _line(board, jobs["thrice"]) == "claimed, 3 attempts; failed before: OSError: disk 1"
    board.consume(jobs["thrice"], "worker")
    board.trash(jobs["restored"], by="ada")
    board.restore(jobs["restored"], by="ada")
    for name in ("once", "restored", "again"):
        end(board, jobs[name])
    assert {name: _line(board, job) for name, job in jobs.items()} == {
        "once": "complete soon after it could be claimed",
        "thrice": "complete soon after it could be claimed, 3 attempts; failed before: OSError: disk 1",
        "restored": "complete soon after it could be claimed; failed before: OSError: disk 0",
        "again": "complete soon after it could be claimed",
    }


def _line(board: JobBoard, job: Job) -> str:
    """Return what the text of its run says of a job that stands alone."""
    first, *_ = str(board.graph(job)).splitlines()
    return re.sub(r"\d+m?s after", "soon after", first.partition("  ")[2])


def test_the_text_of_a_large_run_is_folded(board: JobBoard) -> None:
    plan = Posting("plan")
    parts = [Posting("part", after=[plan]) for _ in range(300)]
    jobs = board.post_many([plan, *parts, Posting("report", after=parts)])
    end(board, jobs[0])
    board.trash(jobs[1], reason="no")
    lines = str(board.graph(jobs[0])).splitlines()
    assert len(lines) == 6
    assert lines[-2] == "302 jobs: 1 trashed, 1 blocked, 299 unclaimed, 1 complete"


def test_since_when_a_job_could_be_claimed_and_how_long_it_took(board: JobBoard) -> None:
    """The delay before the last attempt does not count, nor does what an operator puts into the trash."""
    jobs = post_graph(board, {"a": [], "b": ["a"], "c": ["a"]})
    end(board, jobs["a"])
    board.claim(jobs["b"], "worker")
    board.abandon(jobs["b"], "worker", delay=0.5, reason="not yet")
    board.trash(jobs["c"], by="ada")
    nodes = {node.name: node for node in board.graph(jobs["a"]).nodes.values()}
    assert (nodes["b"].state, nodes["b"].due_on, nodes["b"].seconds) == (
        "DELAYED",
        board.get(jobs["b"].uuid).run_at,
        None,
    )
    assert (nodes["c"].attempts, nodes["c"].seconds) == (0, None)
    eventually(lambda: board.get(jobs["b"].uuid).state is JobState.UNCLAIMED)
    end(board, jobs["b"])
    node = board.graph(jobs["a"]).nodes[jobs["b"].uuid]
    assert (node.attempts, node.due_on) == (2, nodes["b"].due_on)
    assert node.seconds == (node.last_modified - node.due_on).total_seconds()


def test_jobs_that_wait_for_a_signal_or_are_due_later_are_not_over(board: JobBoard) -> None:
    later, alone = board.post("later", delay=3600), board.post("alone")
    assert not board.graph(later).is_over
    assert not board.graph(alone.uuid).is_over
    end(board, alone)
    assert board.graph(alone).is_over


def test_of_ended_jobs_there_are_the_keys_as_long_as_their_records_are_there(board: JobBoard) -> None:
    jobs = [board.post("extract", key=f"source {number}") for number in range(3)]
    report = board.post("report", key="monday", after=jobs)
    end(board, jobs[0])
    client_of(board).retention = 0.0
    end(board, jobs[1])
    board.trash(jobs[2], reason="gone")
    found = {node.uuid: (node.key, node.state, node.result) for node in board.graph(report).nodes.values()}
    assert found[jobs[0].uuid] == ("source 0", "COMPLETE", {"ok": True})
    assert found[jobs[1].uuid] == (None, "COMPLETE", None), "only its edge tells of it"
    assert found[jobs[2].uuid] == ("source 2", "TRASHED", None)
    assert found[report.uuid] == ("monday", "BLOCKED", None)


def test_one_that_was_cancelled_failed(board: JobBoard) -> None:
    jobs = post_graph(board, {"a": [], "b": ["a"], "c": ["b"]}, if_failed="cancel")
    board.cancel(jobs["a"], by="ada", reason="not today")
    end(board, board.post("other"))
    graph = board.graph(jobs["b"])
    assert graph.is_over
    assert {node.state for node in graph.failed} <= {"CANCELLED"}
    assert set(graph.states()) <= {"CANCELLED", "GONE"}


def test_a_graph_that_is_not_whole_does_not_say_that_it_is_over(board: JobBoard) -> None:
    jobs = post_graph(board, {"plan": [], **{f"part {number}": ["plan"] for number in range(5)}})
    end(board, jobs["plan"])
    for number in range(5):
        end(board, jobs[f"part {number}"])
    assert board.graph(jobs["plan"]).is_over
    graph = board.graph(jobs["plan"], most=3)
    assert (graph.is_whole, graph.is_over, graph.ended_on) == (False, False, None)
    for wrong in (0, -1):
        with pytest.raises(ValueError):
            board.graph(jobs["plan"], most=wrong)


def test_a_coroutine_asks_the_same(board: JobBoard) -> None:
    jobs = post_graph(board, {"a": [], "b": ["a"], "c": ["b"]})

    async def ask() -> None:
        graph = await aio.AsyncJobBoard.of(board).graph(jobs["b"].uuid)
        assert graph == board.graph(jobs["b"])

    asyncio.run(ask())


@pytest.mark.parametrize("number", [10, 100, 1000])
def test_a_pipeline_of_three_levels_costs_requests_for_each_hundred_sources(number: int) -> None:
    with backend("costs", "memory") as board:
        extracts = [Posting("extract") for _ in range(number)]
        transforms = [Posting("transform", after=[each]) for each in extracts]
        jobs = board.post_many([*extracts, *transforms, Posting("report", after=transforms)])
        requests = count_requests(board)
        for job in (jobs[0], jobs[number], jobs[-1]):
            requests.clear()
            assert board.graph(job).number == 2 * number + 1
            assert len(requests) <= 18 + 8 * (number // 100)


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_what_a_running_job_posts_after_itself_belongs_to_its_graph(tmp_path: Path, executor: ExecutorName) -> None:
    with backend("runs", f"sqlite:///{tmp_path}/jobs.db") as board:
        with Conductor("w", board, HANDLERS, executor=executor):
            plan = board.post("plan")
            assert plan.wait(30)
            graph = eventually_over(board, plan)
        assert graph.states() == {"COMPLETE": 5}
        assert {node.name for node in graph.children(plan.uuid)} == {"part"}
        (report,) = (node for node in graph.nodes.values() if node.name == "report")
        assert report.result == {"of": report.uuid}


HANDLERS = Handlers()


@HANDLERS.handler
def plan(job: RunningJob) -> Then:
    parts = [Posting("part", after=[job]) for _ in range(3)]
    return Then([*parts, Posting("report", after=parts)])


@HANDLERS.handler
def part(job: RunningJob) -> None:
    """Do nothing."""


@HANDLERS.handler
def report(job: RunningJob) -> dict[str, str]:
    return {"of": job.uuid}


def eventually_over(board: JobBoard, job: Job) -> Graph:
    eventually(lambda: board.graph(job).is_over and board.graph(job).number == 5, 30)
    return board.graph(job)
