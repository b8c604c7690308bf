"""Errors of tasks that a handler runs together: a group of one is its error, and one of final errors is final."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from helpers.conducting import conducting

from jobboard import AsyncRunningJob, Backoff, Broken, Handlers, JobState, RunAgain, fetch
from jobboard.testing import eventually

ERRORS: dict[str, list[Exception]] = {
    "one that is broken": [Broken("no such order")],
    "several that are broken": [Broken("no such order"), Broken("nor that one"), Broken("nor the third")],
    "one that no attempt mends": [KeyError("row")],
    "several that no attempt mends": [KeyError("row"), LookupError("another"), IndexError("a third")],
    "one": [OSError("away")],
    "some of each": [Broken("no such order"), OSError("away"), KeyError("row")],
}
FIRST_REASONS = {
    "one that is broken": "no such order",
    "several that are broken": "no such order",
    "one that no attempt mends": "KeyError: 'row'",
    "several that no attempt mends": "ExceptionGroup: unhandled errors in a TaskGroup (3 sub-exceptions)",
    "one": "OSError: away",
    "some of each": "ExceptionGroup: unhandled errors in a TaskGroup (3 sub-exceptions)",
}
handlers = Handlers(max_attempts=2, backoff=Backoff(first=0.01, factor=1), broken_on=LookupError)


async def fail(error: Exception) -> None:
    raise error


@handlers.handler("together")
async def together(job: AsyncRunningJob) -> None:
    async with asyncio.TaskGroup() as group:
        for error in ERRORS[job.details["what"]]:
            group.create_task(fail(error))


@handlers.handler("again")
async def again(job: AsyncRunningJob) -> None:
    if job.checkpoint is None:
        await job.checkpoint_state("once")
        async with asyncio.TaskGroup() as group:
            group.create_task(fail(RunAgain(after=0.01)))


@pytest.mark.parametrize("executor", ["asyncio", "thread"])
def test_what_a_group_of_errors_means(executor: str) -> None:
    with fetch("work", f"memory://{uuid.uuid4().hex}") as board, conducting(board, handlers, executor):
        jobs = {what: board.post("together", {"what": what}) for what in ERRORS}
        asks_again = board.post("again")
        eventually(lambda: board.job_count == 0, 30)
        records = {what: board.get(job.uuid).record for what, job in jobs.items()}
        assert {record.state for record in records.values()} == {JobState.TRASHED}
        attempts = {what: record.attempts for what, record in records.items()}
        assert attempts == {what: 2 if what in ("one", "some of each") else 1 for what in ERRORS}
        assert {what: record.history[2].reason for what, record in records.items()} == FIRST_REASONS
        assert asks_again.attempts == 1
