"""Batch handlers: what they get, and what becomes of each job by what they return and raise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from jobboard import (
    AsyncBatchJob,
    Backoff,
    BatchJob,
    Broken,
    Handlers,
    Job,
    JobBoard,
    JobState,
    Posting,
    RunAgain,
    Then,
)
from jobboard.testing import all_posted, memory_board, run_due


@pytest.fixture
def board() -> Iterator[JobBoard]:
    with memory_board() as board:
        yield board


def index_of(jobs: list[Job]) -> list[tuple[JobState, Any]]:
    return [(job.state, job.record.result) for job in jobs]


def run(board: JobBoard, function: Callable[..., Any], number: int = 3, **options: Any) -> list[Job]:
    handlers = Handlers(backoff=Backoff(first=60, jitter=0))
    handlers.batch("index", **options)(function)
    jobs = board.post_many([Posting("index", {"number": at}) for at in range(number)])
    run_due(board, handlers)
    return jobs


def test_one_call_gets_many_jobs_and_each_is_completed(board: JobBoard) -> None:
    calls: list[list[int]] = []
    jobs = run(board, lambda jobs: calls.append([job.details["number"] for job in jobs]), number=7, size=3)
    assert calls == [[0, 1, 2], [3, 4, 5], [6]]
    assert index_of(jobs) == [(JobState.COMPLETE, None)] * 7


def test_results_are_returned_by_the_job_or_its_uuid_and_others_have_none(board: JobBoard) -> None:
    jobs = run(board, lambda jobs: {jobs[0]: "first", jobs[1].uuid: ("second",)})
    assert index_of(jobs) == [(JobState.COMPLETE, "first"), (JobState.COMPLETE, ["second"]), (JobState.COMPLETE, None)]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_checkpoint_that_is_too_large_trashes_no_other_job(board: JobBoard, is_async: bool) -> None:
    async def index_later(jobs: list[AsyncBatchJob]) -> None:
        await jobs[1].checkpoint_state(bytes(600_000))

    with pytest.raises(RuntimeError, match="checkpoint"):
        run(board, index_later if is_async else lambda jobs: jobs[1].checkpoint_state(bytes(600_000)))
    assert [job.record.state for job in all_posted(board, "index")] == [JobState.DELAYED] * 3


@pytest.mark.parametrize("is_async", [False, True])
def test_one_bad_job_fails_alone(board: JobBoard, is_async: bool) -> None:
    def index(jobs: list[BatchJob]) -> dict[Any, Any]:
        jobs[1].fail(Broken("no such document"))
        return {jobs[0]: "fine", jobs[2]: LookupError("not yet"), jobs[3]: RunAgain(after=5)}

    async def index_later(jobs: list[AsyncBatchJob]) -> dict[Any, Any]:
        await jobs[0].checkpoint_state("seen")
        jobs[1].fail(Broken("no such document"))
        return {jobs[0]: "fine", jobs[2]: LookupError("not yet"), jobs[3]: RunAgain(after=5)}

    with pytest.raises(RuntimeError, match="job 'index': no such document"):
        run(board, index_later if is_async else index, number=5)
    jobs = all_posted(board, "index")
    assert [job.record.state for job in jobs] == [
        *(JobState.COMPLETE, JobState.TRASHED, JobState.DELAYED, JobState.DELAYED, JobState.COMPLETE)
    ]
    assert [job.attempts for job in jobs] == [1, 1, 1, 0, 1]
    assert jobs[1].record.reason == "no such document"
    assert "LookupError: not yet" in str(jobs[2].last_error)
    assert jobs[0].checkpoint == ("seen" if is_async else None)


def test_what_it_raises_fails_those_that_it_has_not_ended(board: JobBoard) -> None:
    def index(jobs: list[BatchJob]) -> None:
        jobs[0].complete("early")
        jobs[1].fail("by itself")
        raise LookupError("for all others")

    with pytest.raises(RuntimeError):
        run(board, index)
    jobs = all_posted(board, "index")
    assert [job.record.state for job in jobs] == [JobState.COMPLETE, JobState.DELAYED, JobState.DELAYED]
    assert [job.record.reason for job in jobs[1:]] == ["by itself", "LookupError: for all others"]


@dataclass
class Document:
    number: int


def test_details_of_a_type_come_in_a_list_and_what_does_not_fit_fails_alone(board: JobBoard) -> None:
    handlers, seen = Handlers(), list[tuple[str, int]]()

    @handlers.batch("index")
    def index(jobs: list[BatchJob], documents: list[Document]) -> None:
        seen.extend((job.uuid, document.number) for job, document in zip(jobs, documents, strict=True))

    jobs = [index.post(board, Document(1)), board.post("index", {"number": "x"}), index.post(board, Document(3))]
    with pytest.raises(RuntimeError, match="details.number must be int"):
        run_due(board, handlers)
    assert seen == [(jobs[0].uuid, 1), (jobs[2].uuid, 3)]
    assert [job.state for job in jobs] == [JobState.COMPLETE, JobState.TRASHED, JobState.COMPLETE]


def test_a_batch_of_nothing_that_fits_is_not_called(board: JobBoard) -> None:
    def index(jobs: list[BatchJob], documents: list[Document]) -> None:
        raise AssertionError("never called")

    handlers = Handlers()
    handlers.batch("index")(index)
    job = board.post("index", {})
    with pytest.raises(RuntimeError, match="details.number is missing"):
        run_due(board, handlers)
    assert job.state is JobState.TRASHED


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (lambda job: job.step("a", int), "step"),
        (lambda job: job.sleep(1), "sleep"),
        (lambda job: job.wait_for("go"), "wait_for"),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_steps_sleeps_and_waits_are_refused_by_name(
    board: JobBoard, use: Callable[[Any], Any], what: str, is_async: bool
) -> None:
    def index(jobs: list[BatchJob]) -> None:
        use(jobs[1])

    async def index_later(jobs: list[AsyncBatchJob]) -> None:
        use(jobs[1])

    with pytest.raises(RuntimeError, match=f"job.{what} can't be used in the batch handler 'index'"):
        run(board, index_later if is_async else index)
    assert {job.state for job in all_posted(board, "index")} == {JobState.DELAYED}


@pytest.mark.parametrize("wrong", [1, ["a"], {"nobody": 1}, {1: 2}])
def test_what_it_must_not_return_fails_all(board: JobBoard, wrong: Any) -> None:
    with pytest.raises(RuntimeError, match="a batch handler return"):
        run(board, lambda jobs: wrong)
    assert {job.state for job in all_posted(board, "index")} == {JobState.DELAYED}


def test_a_result_may_post_others_and_one_that_cannot_be_stored_is_its_own_fault(board: JobBoard) -> None:
    with pytest.raises(RuntimeError, match="result can't be stored"):
        run(board, lambda jobs: {jobs[0]: Then([Posting("next")], 1), jobs[1]: object()})
    assert [(job.name, job.state) for job in all_posted(board)] == [
        ("index", JobState.COMPLETE), ("index", JobState.TRASHED), ("index", JobState.COMPLETE),
        ("next", JobState.UNCLAIMED),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "options", "error"),
    [
        (lambda: None, {}, TypeError),
        (lambda a, b, c: None, {}, TypeError),
        (lambda jobs: None, {"size": 0}, ValueError),
        (lambda jobs: None, {"size": 1001}, ValueError),
        (lambda jobs: None, {"wait": -1}, ValueError),
        (5, {}, TypeError),
    ],
)
def test_what_cannot_be_a_batch_handler_is_refused(
    function: Any, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        Handlers().batch("index", **options)(function)


def test_no_error_is_no_failure_of_a_job(board: JobBoard) -> None:
    with pytest.raises(RuntimeError, match="error must be an exception or a str"):
        run(board, lambda jobs: jobs[0].fail(None))
