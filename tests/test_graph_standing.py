"""How a graph of jobs stands: what failed, what waits for it, whether it is over, and what it costs to ask."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.graphs import count_requests, end, post_graph

from jobboard import Conductor, Graph, Handlers, Job, JobBoard, Posting, RunningJob, Then, aio, backend
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
