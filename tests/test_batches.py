"""Batches in conductors: how they are gathered, and that each job keeps a claim and an end of its own."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from helpers import batching
from helpers.conducting import conducting, lossy_board
from helpers.memory_board import board

from jobboard import BatchJob, Handlers, Job, JobBoard, JobState, Posting, RunningJob
from jobboard.conductor.batches import Batches
from jobboard.testing import eventually

__all__ = ["board"]

EXECUTORS = ("thread", "process", "asyncio")


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    return tmp_path / "diary"


def post(board: JobBoard, name: str, diary: Path, number: int) -> list[Job]:
    return board.post_many([Posting(name, {"diary": str(diary), "number": at}) for at in range(number)])


def lines_of(diary: Path) -> list[str]:
    return diary.read_text().splitlines() if diary.exists() else []


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", ["index", "index later"])
def test_a_backlog_is_served_in_full_batches(board: JobBoard, diary: Path, executor: str, name: str) -> None:
    jobs = post(board, name, diary, 150)
    with conducting(board, batching.handlers, executor, concurrency=1):
        assert [job.get_result(60) for job in jobs] == list(range(150))
    # One that was claimed ahead for a slot that is not free in time comes later.
    sizes = [len(line.split()) for line in lines_of(diary)]
    assert (sizes[0], max(sizes), sum(sizes), len(sizes) <= 6) == (50, 50, 150, True)
    assert jobs[0].checkpoint == "seen"
    assert {job.record.progress["done"] for job in jobs} == {1}


@pytest.mark.parametrize("executor", ["thread", "process"])
def test_the_first_job_waits_for_others_until_the_batch_is_full(board: JobBoard, diary: Path, executor: str) -> None:
    with conducting(board, batching.handlers, executor, concurrency=2):
        jobs = post(board, "wait for more", diary, 1)
        eventually(lambda: jobs[0].state is JobState.CLAIMED)
        assert lines_of(diary) == []
        jobs += post(board, "wait for more", diary, 2)
        assert all(job.wait(30) for job in jobs)
    assert lines_of(diary) == ["0 0 1"]


def test_a_batch_that_others_fill_begins_at_once(board: JobBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    """The conductor's own thread may claim the last ones, while the batch waits for jobs on the board."""
    handlers, sizes = Handlers(), list[int]()
    handlers.batch("index", size=3, wait=60)(lambda jobs: sizes.append(len(jobs)))
    with conducting(board, handlers, concurrency=1) as conductor:
        first = board.post("index")
        batches = conductor._run._batches
        eventually(lambda: batches._waiters)
        monkeypatch.setattr(Batches, "_claim", lambda *_: False)
        board.post_many([Posting("index")] * 2)
        claimed = board.claim_next(conductor.who, limit=2)
        # By now it waits for as long as it may.
        time.sleep(0.2)
        batches._on_claimed(claimed, time.monotonic())
        assert first.wait(20)
    assert sizes == [3]


def test_a_batch_takes_one_slot_and_few_requests() -> None:
    handlers, sizes, is_inside, goes_on = Handlers(), list[int](), threading.Event(), threading.Event()

    @handlers.batch("index", size=100, wait=30)
    def index(jobs: list[BatchJob]) -> None:
        sizes.append(len(jobs))
        is_inside.set()
        assert goes_on.wait(30)

    handlers.add("other", lambda job: "beside it")
    with lossy_board() as (board, backend):
        jobs = board.post_many([Posting("index") for _ in range(100)])
        with conducting(board, handlers, concurrency=2) as conductor:
            assert is_inside.wait(30)
            others = board.post_many([Posting("other") for _ in range(50)])
            assert [job.get_result(30) for job in others] == ["beside it"] * 50
            goes_on.set()
            assert all(job.wait(30) for job in jobs)
            eventually(lambda: conductor.handled == 150)
        assert sizes == [100]
        assert backend.calls["consume"] < 60


@pytest.mark.parametrize("executor", ["thread", "process", "asyncio"])
def test_a_cancel_is_told_to_one_job_and_harms_no_other(board: JobBoard, diary: Path, executor: str) -> None:
    jobs = post(board, "until cancelled", diary, 3)
    with conducting(board, batching.handlers, executor, grace=0.05):
        eventually(lambda: lines_of(diary))
        assert board.cancel(jobs[1]) is False
        # Its grace is over by now, and its handler goes on for the others.
        eventually(lambda: jobs[1] not in set(board.iterjobs(states=set(JobState))))
        with diary.open("a") as file:
            file.write("go on\n")
        assert [jobs[at].get_result(30) for at in (0, 2)] == [1, 1]
    assert len(lines_of(diary)) == 2


def test_a_lost_claim_is_told_to_one_job_and_another_batch_does_it(board: JobBoard) -> None:
    handlers, seen, lost = Handlers(), list[list[str]](), list[list[bool]]()
    is_inside, goes_on = threading.Event(), threading.Event()

    @handlers.batch("index", size=3, wait=0)
    def index(jobs: list[BatchJob]) -> dict[Any, Any]:
        seen.append([job.uuid for job in jobs])
        number = len(seen)
        if number == 1:
            is_inside.set()
            assert goes_on.wait(30)
            lost.append([job.lost for job in jobs])
        return dict.fromkeys(jobs, number)

    jobs = board.post_many([Posting("index") for _ in range(3)])
    with conducting(board, handlers, concurrency=2, expiry=1.5):
        assert is_inside.wait(30)
        board.release(jobs[0])
        assert jobs[0].get_result(30) == 2
        goes_on.set()
        assert [job.get_result(30) for job in jobs[1:]] == [1, 1]
    assert seen == [[job.uuid for job in jobs], [jobs[0].uuid]]
    assert lost == [[True, False, False]]


def test_all_jobs_of_a_batch_that_takes_too_long_fail(board: JobBoard) -> None:
    handlers, goes_on = Handlers(max_attempts=1), threading.Event()

    @handlers.batch("index", size=3, wait=0, timeout=0.1)
    def index(jobs: list[BatchJob]) -> None:
        assert goes_on.wait(30)

    jobs = board.post_many([Posting("index") for _ in range(3)])
    with conducting(board, handlers, grace=0.1):
        assert [job.wait(30) for job in jobs] == [False] * 3
        goes_on.set()
    assert {job.record.reason for job in jobs} == {"timed out after 0.1 s"}


def test_all_jobs_of_a_batch_whose_worker_dies_run_again(board: JobBoard, diary: Path) -> None:
    jobs = post(board, "die once", diary, 3)
    with conducting(board, batching.handlers, "process"):
        assert all(job.wait(30) for job in jobs)
    assert lines_of(diary) == ["0 1 2", "0 1 2"]
    assert {job.attempts for job in jobs} == {2}


def test_a_stop_begins_what_is_gathered_and_waits_for_no_more(board: JobBoard) -> None:
    handlers, sizes = Handlers(), list[int]()

    @handlers.batch("index", size=100, wait=60)
    def index(jobs: list[BatchJob]) -> None:
        sizes.append(len(jobs))

    jobs = board.post_many([Posting("index") for _ in range(3)])
    with conducting(board, handlers) as conductor:
        eventually(lambda: all(job.state is JobState.CLAIMED for job in jobs))
        assert conductor.stop(timeout=30) is True
    assert (sizes, {job.state for job in jobs}) == ([3], {JobState.COMPLETE})


def test_three_slots_share_a_name_that_waits_for_more(board: JobBoard) -> None:
    """What is claimed for free slots joins the batch that gathers, and no slot but its first one is taken."""
    handlers, sizes, goes_on = Handlers(), list[int](), threading.Event()

    @handlers.batch("index", size=4, wait=30)
    def index(jobs: list[BatchJob]) -> None:
        sizes.append(len(jobs))

    @handlers.handler("long")
    def long(job: RunningJob) -> None:
        assert goes_on.wait(30)

    with conducting(board, handlers, concurrency=3):
        busy = board.post_many([Posting("long") for _ in range(2)])
        jobs = [board.post("index") for _ in range(4)]
        assert all(job.wait(30) for job in jobs)
        goes_on.set()
        assert all(job.wait(30) for job in busy)
    assert sizes == [4]
