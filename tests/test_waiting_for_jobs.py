"""Handlers that wait for other jobs: RunAgain(after=[...]), and the durable job.wait_for_jobs()."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from helpers.counted_requests import count_requests
from helpers.durable import handlers as durable

from jobboard import (
    AsyncRunningJob,
    BatchJob,
    ClaimLost,
    Conductor,
    Handlers,
    JobBoard,
    JobState,
    Posting,
    RunAgain,
    RunningJob,
    backend,
)
from jobboard.board import client_of, wait_for_jobs, wait_for_jobs_of_step
from jobboard.testing import memory_board, run_due


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with memory_board() as board:
        yield board


def parts_of(board: JobBoard) -> list[Any]:
    return [job.name for job in board.iterjobs(names=["part"])]


@pytest.mark.parametrize("is_raised", [False, True])
def test_a_handler_runs_again_after_jobs(board: JobBoard, is_raised: bool) -> None:
    handlers = Handlers(max_attempts=1)
    handlers.add("part", lambda job: job.details["n"])
    there = board.post("part", {"n": 10})

    @handlers.handler("main")
    def main(job: RunningJob) -> Any:
        parents = list(job.parents())
        if parents:
            return sum(parent.result for parent in parents)
        first = Posting("part", {"n": 1})
        again = RunAgain(after=[first, Posting("part", {"n": 2}, after=[first]), there.uuid])
        if is_raised:
            raise again
        return again

    job = board.post("main")
    run_due(board, handlers)
    assert (job.state, job.result, job.attempts) == (JobState.COMPLETE, 13, 1)


def test_an_async_handler_runs_again_after_jobs(board: JobBoard) -> None:
    handlers = Handlers()
    handlers.add("part", lambda job: job.details["n"])

    @handlers.handler("main")
    async def main(job: AsyncRunningJob) -> Any:
        found = [parent.result async for parent in job.parents()]
        return sum(found) if found else RunAgain(after=[Posting("part", {"n": n}) for n in range(4)])

    job = board.post("main")
    run_due(board, handlers)
    assert job.result == 6


def test_one_job_of_a_batch_runs_again_after_jobs(board: JobBoard) -> None:
    handlers, sizes = Handlers(), list[int]()
    handlers.add("part", lambda job: None)

    @handlers.batch("main", size=3)
    def main(jobs: list[BatchJob]) -> dict[Any, Any]:
        sizes.append(len(jobs))
        return {job: RunAgain(after=[Posting("part")]) for job in jobs if len(jobs) > 1 and not job.details["n"]}

    jobs = board.post_many([Posting("main", {"n": n}) for n in range(3)])
    run_due(board, handlers)
    assert sizes == [3, 1]
    assert [job.state for job in jobs] == [JobState.COMPLETE] * 3


def test_what_can_not_go_together_is_refused() -> None:
    for wrong in ({"at": datetime.now(UTC)}, {"pause_lane": True}):
        with pytest.raises(ValueError, match="not both|pause_lane"):
            RunAgain(after=[Posting("part")], **wrong)
    for one in (Posting("part"), "1b4e28ba-2fa1-11d2-883f-0016d3cca427", object()):
        with pytest.raises(TypeError):
            RunAgain(after=one)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        RunAgain(after=[3])  # type: ignore[list-item]


@pytest.mark.parametrize("is_step", [False, True])
def test_a_job_that_would_wait_for_itself_goes_to_the_trash_by_name(board: JobBoard, is_step: bool) -> None:
    handlers = Handlers()

    @handlers.handler("main")
    def main(job: RunningJob) -> Any:
        wanted = [child.uuid for child in job.board.get(job.uuid).children()]
        return job.wait_for_jobs("child", wanted) if is_step else RunAgain(after=wanted)

    job = board.post("main")
    board.post("child", after=[job])
    with pytest.raises(Exception, match="wait for each other"):
        run_due(board, handlers)
    assert job.state is JobState.TRASHED


def test_a_cancelled_job_posts_nothing_more(board: JobBoard) -> None:
    handlers = Handlers()

    @handlers.handler("main")
    def main(job: RunningJob) -> RunAgain:
        job.board.cancel(job.uuid)
        job.progress(1)
        assert job.cancelled
        return RunAgain(after=[Posting("part")])

    board.post("main")
    run_due(board, handlers)
    assert not list(board.iterjobs())


@pytest.mark.parametrize(("name", "result"), [("sum", 14 + 196), ("sum later", 14), ("nested", 14 + 196)])
def test_a_durable_handler_waits_for_jobs(board: JobBoard, tmp_path: Path, name: str, result: int) -> None:
    job = board.post(name, {"diary": str(tmp_path / "diary")})
    run_due(board, durable)
    assert (job.result, job.attempts) == (result, 1)
    steps = [step.name for step in job.steps()]
    assert len(steps) == len(set(steps))


def test_a_run_that_dies_before_its_jobs_are_posted_posts_them_once(board: JobBoard) -> None:
    handlers, runs = Handlers(), list[int]()
    handlers.add("part", lambda job: job.details["n"])

    @handlers.handler("main")
    def main(job: RunningJob) -> Any:
        runs.append(job.attempts)
        try:
            found = job.wait_for_jobs("parts", [Posting("part", {"n": 1}), Posting("part", {"n": 2})])
        finally:
            if len(runs) == 1:
                # As if its process had died: nobody hears of the end of this run.
                job.board.release(job.board.get(job.uuid), reason="it died")
        return [parent.result for parent in found]

    job = board.post("main")
    with pytest.raises(ClaimLost):
        run_due(board, handlers)
    assert not parts_of(board)
    run_due(board, handlers)
    assert job.result == [1, 2]
    assert len(list(job.parents())) == 2
    assert client_of(board).backend.edges.counts([job.uuid])[0].done == 2


def test_a_part_that_fails_holds_it_back_until_it_is_mended(board: JobBoard) -> None:
    handlers, is_mended = Handlers(max_attempts=1), list[bool]()

    @handlers.handler("part")
    def part(job: RunningJob) -> int:
        return 1 // len(is_mended)

    @handlers.handler("main")
    def main(job: RunningJob) -> Any:
        return [parent.result for parent in job.wait_for_jobs("parts", [Posting("part")])]

    job = board.post("main")
    with pytest.raises(ZeroDivisionError):
        run_due(board, handlers)
    assert job.state is JobState.BLOCKED
    is_mended.append(True)
    (failed,) = board.trashed()
    board.restore(failed.uuid)
    run_due(board, handlers)
    assert job.result == [1]


def test_jobs_are_not_waited_for_in_a_step_or_a_batch(board: JobBoard) -> None:
    handlers = Handlers()

    @handlers.handler("nested step")
    def nested_step(job: RunningJob) -> Any:
        return job.step("outer", job.wait_for_jobs, "parts", [Posting("part")])

    @handlers.batch("several", size=2)
    def several(jobs: list[BatchJob]) -> None:
        jobs[0].wait_for_jobs("parts", [Posting("part")])

    @handlers.handler("kept")
    def kept(job: RunningJob) -> Any:
        return job.wait_for_jobs("parts", [Posting("part", key="k", if_exists="keep")])

    for name, text in (("nested step", "in another step"), ("several", "wait_for_jobs"), ("kept", "if_exists")):
        board.post(name, max_attempts=1)
        with pytest.raises(Exception, match=text):
            run_due(board, handlers)
    assert not parts_of(board)


@pytest.mark.parametrize("executor", ["thread", "process", "asyncio"])
def test_in_every_executor(tmp_path: Path, executor: str) -> None:
    name = "sum later" if executor == "asyncio" else "sum"
    with backend("board", f"sqlite:///{tmp_path}/jobs.db") as board:
        job = board.post(name, {"diary": str(tmp_path / "diary")})
        conductor = Conductor("worker", board, durable, concurrency=2, executor=executor)
        conductor.start()
        try:
            assert job.get_result(timeout=60) == (14 if executor == "asyncio" else 210)
        finally:
            conductor.stop()


@pytest.mark.parametrize("wait", [wait_for_jobs, wait_for_jobs_of_step])
@pytest.mark.parametrize(("parts", "most"), [(3, 7), (50, 7), (500, 23)])
def test_what_it_costs(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch, wait: Callable[..., None], parts: int, most: int
) -> None:
    board.post("main")
    [job] = board.claim_next("owner")
    asked = count_requests(board, monkeypatch)
    wait(board, job, "owner", [Posting("part", uuid=str(uuid4())) for _ in range(parts)])
    assert len(asked) <= most, asked


def test_what_a_run_posted_that_died_runs_at_once_and_is_taken_up_by_the_next(
    board: JobBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, parts = board.post("main"), [Posting("part", uuid=str(uuid4())) for _ in range(3)]
    [job] = board.claim_next("first")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(client_of(board).backend.edges, "link", _die)
        wait_for_jobs_of_step(board, job, "first", parts)
    [part] = board.claim_next("worker", names=["part"])
    board.consume(part, "worker", 0)
    board.release(main, reason="its owner is dead")
    [job] = board.claim_next("next", names=["main"])
    wait_for_jobs_of_step(board, job, "next", parts)
    assert main.state is JobState.BLOCKED
    for number in (1, 2):
        [part] = board.claim_next("worker")
        board.consume(part, "worker", number)
    assert sorted(parent.result for parent in main.parents()) == [0, 1, 2]
    assert board.claim_next("next") == [main]


def _die(*_: Any) -> None:
    raise KeyboardInterrupt
