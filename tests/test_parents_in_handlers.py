"""What handlers read of the jobs that theirs have waited for, and a posting that stands in a Then several times."""

from __future__ import annotations

import pytest
from helpers.memory_board import board

from jobboard import (
    AsyncRunningJob,
    Conductor,
    Handlers,
    InvalidPosting,
    JobBoard,
    Posting,
    RunningJob,
    Then,
)

__all__ = ["board"]


def run(board: JobBoard, handlers: Handlers, *names: str) -> None:
    conductor = Conductor("worker", board, handlers, concurrency=2)
    conductor.start()
    try:
        for job in list(board.iterjobs(names=names)):
            assert job.wait(30)
    finally:
        conductor.stop()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_reads_the_results_of_the_parents(board: JobBoard, is_async: bool) -> None:
    handlers, seen = Handlers(), dict[str, object]()
    handlers.add("part", lambda job: job.details["number"])

    if is_async:

        @handlers.handler("sum")
        async def sum_async(job: AsyncRunningJob) -> None:
            seen.update({parent.uuid: parent.result async for parent in job.parents()})

    else:

        @handlers.handler("sum")
        def sum_plain(job: RunningJob) -> None:
            seen.update({parent.uuid: parent.result for parent in job.parents()})

    parts = board.post_many([Posting("part", {"number": number}) for number in range(3)])
    board.post("sum", after=parts)
    run(board, handlers, "sum")
    assert seen == {part.uuid: number for number, part in enumerate(parts)}


def test_a_posting_that_stands_in_a_then_three_times_is_three_jobs(board: JobBoard) -> None:
    handlers = Handlers()
    handlers.add("plan", lambda job: Then([Posting("part")] * 3))
    board.post("plan")
    run(board, handlers, "plan")
    assert len(list(board.iterjobs(names=["part"]))) == 3


def test_such_a_posting_can_not_be_a_parent(board: JobBoard) -> None:
    from jobboard.then import fixed

    part = Posting("part")
    with pytest.raises(InvalidPosting, match="which is posted 2 times"):
        fixed([part, part, Posting("sum", after=[part])], lambda details: details)
